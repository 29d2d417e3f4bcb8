Feature: An epoch reads as much as is waiting
  Whatever is waiting is read at once, up to a limit, so that a backlog is worked off in a few large epochs and a trickle
  in small ones. How input is divided into epochs never changes the result.

  Background:
    Given the deployment contracts.toml

  @core
  Scenario: Files that are waiting are read in one epoch, up to the limit
    Given the setting sources.contracts.max_bytes_per_epoch = 150
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 08:00 |
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 07:00 |
    And contract_rank runs one epoch
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
    When contract_rank runs one epoch
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 12       | 2    |
      | 1       | 11       | 3    |

  Scenario: A file is never split, even if it is larger than the limit
    Given the setting sources.contracts.max_bytes_per_epoch = 10
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 08:00 |
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 07:00 |
    And contract_rank runs one epoch
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |

  Scenario: A row that arrives while others wait is read with them
    Given the setting sources.contracts.max_bytes_per_epoch = 1000000
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 08:00 |
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 07:00 |
    And contract_rank runs one epoch
    Then contract_rank.ranks as known at epoch 1 shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
