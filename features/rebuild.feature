Feature: A pipeline is built again with edited settings, beside its tables
  An edit that changes what stored rows mean is refused by a run. A rebuild reads the source again from its beginning,
  into new tables. Until these have reached the old ones, runs and readers with the former settings go on. Then one
  commit switches to the new tables, so that nobody sees anything but the old rows or the new ones.

  Background:
    Given the deployment contracts.toml
    And an epoch of contracts brings
      | project | contract | sign_time        | amount |
      | 1       | 11       | 2024-03-01 09:00 | 5      |
      | 1       | 12       | 2024-03-02 09:00 | 7      |
      | 2       | 21       | 2024-03-02 10:00 | 9      |
    And an epoch of contracts brings
      | project | contract | sign_time        | amount |
      | 1       | 13       | 2024-03-01 08:00 | 6      |

  @core @lake
  Scenario: Rows are as if the pipeline had always had the edited settings
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    Then running contract_rank fails with ConfigError: headwater rebuild
    When contract_rank is rebuilt
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 2       | 21       | 1    |

  @core
  Scenario: Runs and readers with the former settings go on until the switch
    Given a process has opened contract_rank
    And the setting pipelines.contract_rank.order_by = "-sign_time"
    When contract_rank is rebuilt while these rows arrive at contracts, and the process reads them
      | project | contract | sign_time        | amount |
      | 1       | 14       | 2024-02-01 08:00 | 8      |
    Then meanwhile the process has seen in contract_rank.ranks exactly
      | project | contract | rank |
      | 1       | 14       | 1    |
      | 1       | 13       | 2    |
      | 1       | 11       | 3    |
      | 1       | 12       | 4    |
      | 2       | 21       | 1    |
    And the process fails to run and to read contract_rank with PipelineRebuilt
    And contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 1       | 14       | 4    |
      | 2       | 21       | 1    |

  @core @faults
  Scenario Outline: After a crash <moment> readers see the old rows, and the same command goes on
    Given a process has opened contract_rank
    And the setting pipelines.contract_rank.order_by = "-sign_time"
    When rebuilding contract_rank crashes <moment>
    Then the process still sees in contract_rank.ranks exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 2       | 21       | 1    |
    When contract_rank is rebuilt
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 2       | 21       | 1    |
    And generation 2 of contract_rank is current

    Examples:
      | moment                                 |
      | before anything is written             |
      | after it has begun                     |
      | in the middle of its first epoch       |
      | between its epochs                     |
      | after the old tables have been closed  |
      | right before the switch                |

  @core
  Scenario: After a crash right after the switch readers see the new rows, and the same command has nothing to do
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When rebuilding contract_rank crashes right after the switch
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 2       | 21       | 1    |
    When contract_rank is rebuilt
    Then generation 2 of contract_rank is current

  @core
  Scenario: After a crash near the switch a run with the former settings waits for the rebuild, or for its end
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When rebuilding contract_rank crashes right before the switch
    And the setting pipelines.contract_rank.order_by = "sign_time"
    And these rows arrive at contracts
      | project | contract | sign_time        | amount |
      | 2       | 22       | 2024-02-01 08:00 | 8      |
    Then running contract_rank fails with EpochConflict: headwater rebuild
    When the rebuild of contract_rank is given up
    And contract_rank runs until idle
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 2       | 22       | 1    |
      | 2       | 21       | 2    |
    And generation 1 of contract_rank is current

  @core
  Scenario: If the settings are edited again before the end, the rebuild starts afresh
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When rebuilding contract_rank crashes between its epochs
    And the setting pipelines.contract_rank.order_by = "amount"
    And the setting pipelines.contract_rank.segment = "10"
    And contract_rank is rebuilt
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 13       | 2    |
      | 1       | 12       | 3    |
      | 2       | 21       | 1    |
    And generation 3 of contract_rank is current

  Scenario: Runs continue the new tables, and they can be rebuilt again
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When contract_rank is rebuilt
    And an epoch of contracts brings
      | project | contract | sign_time        | amount |
      | 1       | 14       | 2024-02-01 08:00 | 8      |
      | 2       | 22       | 2024-02-01 08:00 | 8      |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |
      | 1       | 13       | 3    |
      | 1       | 14       | 4    |
      | 2       | 21       | 1    |
      | 2       | 22       | 2    |
    When the setting pipelines.contract_rank.order_by = "sign_time"
    And contract_rank is rebuilt
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 14       | 1    |
      | 1       | 13       | 2    |
      | 1       | 11       | 3    |
      | 1       | 12       | 4    |
      | 2       | 22       | 1    |
      | 2       | 21       | 2    |
    And generation 3 of contract_rank is current

  @core
  Scenario: If the source has lost its beginning, nothing is written and the old rows stay
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When the first file of contracts is gone
    Then rebuilding contract_rank fails with SourceChanged: 1 of the 2 files that were read
    And generation 1 of contract_rank is current
    When the setting pipelines.contract_rank.order_by = "sign_time"
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 2       | 21       | 1    |

  Scenario: Another key and other columns
    Given the setting pipelines.contract_rank.group = ["project", "contract"]
    And the setting pipelines.contract_rank.id = ["sign_time"]
    And the setting sources.contracts.schema = "project bigint, contract bigint, sign_time timestamp, amount double"
    When contract_rank is rebuilt
    Then contract_rank.ranks shows exactly
      | project | contract | sign_time        | rank |
      | 1       | 11       | 2024-03-01 09:00 | 1    |
      | 1       | 12       | 2024-03-02 09:00 | 1    |
      | 1       | 13       | 2024-03-01 08:00 | 1    |
      | 2       | 21       | 2024-03-02 10:00 | 1    |
