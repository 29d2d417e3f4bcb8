Feature: Every epoch happens exactly once
  A crash at any point, a lost checkpoint or a second writer never loses a row, counts one twice, or shows half an epoch.

  Background:
    Given the deployment contracts.toml
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |

  @core @lake @faults
  Scenario Outline: After a crash <moment> the next run completes the epoch
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank crashes <moment>
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    When contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And contract_rank has published 2 epochs

    Examples:
      | moment                  |
      | before the first commit |
      | after the first commit  |
      | before the publication  |

  Scenario: An epoch that was published before the run died is not done again
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank crashes after the publication
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And contract_rank has published 2 epochs

  @core @faults
  Scenario: More rows arrive before the next run, and only the tables record where the last run ended
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank crashes after the first commit
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-03 08:00 |
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 14       | 4    |
    And contract_rank has published 3 epochs

  @core @faults
  Scenario Outline: The time zone of a source is corrected after a crash <moment>
    When these lines arrive at contracts
      """
      {"project": 1, "contract": 13, "sign_time": "2024-03-01 23:00:00"}
      {"project": 1, "contract": 14, "sign_time": "2024-03-02 23:00:00"}
      """
    And contract_rank crashes <moment>
    And the setting sources.contracts.time_zone = "America/New_York"
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | sign_time        | rank |
      | 1       | 11       | 2024-03-01 09:00 | 1    |
      | 1       | 13       | 2024-03-02 04:00 | 2    |
      | 1       | 12       | 2024-03-02 09:00 | 3    |
      | 1       | 14       | 2024-03-03 04:00 | 4    |
    And contract_rank has published 2 epochs

    Examples:
      | moment                 |
      | after the first commit |
      | before the publication |

  @core @lake @faults
  Scenario Outline: A record of the epoch is gone after a crash <moment>
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 10:00 |
      | 1       | 14       | 2024-03-01 08:00 |
    And contract_rank crashes <moment>
    And the last record of contracts is gone
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 13       | 2    |
      | 1       | 12       | 3    |
    And contract_rank has published 2 epochs
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 15       | 2024-03-01 07:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 15       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 1       | 12       | 4    |

    Examples:
      | moment                 |
      | after the first commit |
      | before the publication |

  @core @lake @faults
  Scenario: A column is added, and removed again after a crash
    When the setting sources.contracts.schema = "project bigint, contract bigint, sign_time timestamp, amount decimal(18,2), note string"
    And these rows arrive at contracts
      | project | contract | sign_time        | note  |
      | 1       | 13       | 2024-03-01 08:00 | first |
    And contract_rank crashes after the first commit
    And the setting sources.contracts.schema = "project bigint, contract bigint, sign_time timestamp, amount decimal(18,2)"
    And contract_rank runs until idle
    And these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-03 08:00 |
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 14       | 4    |
    And contract_rank has published 3 epochs

  @core @lake @faults
  Scenario: A second writer is refused and damages nothing
    Given a second run has opened contract_rank
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    Then the second run fails with EpochConflict
    And contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  Scenario: After a transient fault the epoch is retried
    When these rows arrive at contracts
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank runs until idle on a store that cannot be reached once
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  @core @faults
  Scenario: A reader's rows do not change during epochs and compaction
    Given a reader holds contract_rank.ranks
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the tables of contract_rank are compacted
    Then the reader still sees exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
