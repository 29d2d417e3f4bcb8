Feature: Old versions expire as configured, and never during a leased read
  Publications stay readable for as long as the retention says, and longer for a reader with a lease. Reading an expired
  publication fails before any row is read.

  Background:
    Given the deployment contracts.toml
    And the setting pipelines.contract_rank.materialize = ["ranks"]
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |

  @core @faults
  Scenario: A leased publication does not change during epochs, compaction and expiry
    Given a reader leases contract_rank
    And a reader holds contract_rank.ranks
    And the setting backend.retain = { versions = 1 }
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the tables of contract_rank are compacted
    And contract_rank expires its old versions
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-03 09:00 |
      | 1       | 14       | 2024-03-02 09:00 |
    And the tables of contract_rank are compacted
    And contract_rank expires its old versions
    Then the reader still sees exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And contract_rank.ranks as known at epoch 0 shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And contract_rank.ranks as known at epoch 1 has expired
    And contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 14       | 3    |
      | 1       | 12       | 4    |
    When the reader releases its lease
    And contract_rank expires its old versions
    Then contract_rank.ranks as known at epoch 0 has expired

  Scenario: Without a retention nothing expires
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank expires its old versions
    Then contract_rank.ranks as known at epoch 0 shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |

  Scenario: A run continues after an expiry
    Given the setting backend.retain = { versions = 1 }
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank crashes after the first commit
    And contract_rank expires its old versions
    And contract_rank runs until idle
    And contract_rank expires its old versions
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And contract_rank.ranks as known at epoch 0 has expired
