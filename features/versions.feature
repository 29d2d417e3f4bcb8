Feature: Readers select versions by their content, and read the changes between two versions
  Every publication is a version, with its epoch, the time of its publication and a label, which is the watermark of its
  inputs. A reader can wait for a watermark, read the version with a label, and compare two versions.

  Background:
    Given the deployment versions.toml
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
      | 2       | 21       | 2024-03-02 09:00 |

  @core
  Scenario: The changes of a table between two versions, with row kinds
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
      | 3       | 31       | 2024-03-03 08:00 |
    Then reports.projects differs since epoch 0 by exactly
      | project | contracts | _row_kind |
      | 1       | 2         | -U        |
      | 1       | 3         | +U        |
      | 3       | 1         | +I        |
    And contract_rank.ranks differs since epoch 0 by exactly
      | project | contract | rank | _row_kind |
      | 1       | 11       | 1    | -U        |
      | 1       | 11       | 2    | +U        |
      | 1       | 12       | 2    | -U        |
      | 1       | 12       | 3    | +U        |
      | 1       | 13       | 1    | +I        |
      | 3       | 31       | 1    | +I        |

  Scenario: Without a key whole rows are added and removed, and equal rows are counted
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 10:00 |
      | 2       | 21       | 2024-03-01 11:00 |
      | 3       | 31       | 2024-03-03 08:00 |
    Then reports.days differs since epoch 0 by exactly
      | day        | _row_kind | _multiplicity |
      | 2024-03-01 | +I        | 2             |
      | 2024-03-02 | -D        | 2             |
      | 2024-03-03 | +I        | 1             |

  Scenario: A row that was added and removed between two versions is not shown
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-04 09:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-02 09:00 |
    Then contract_rank.ranks differs since epoch 0 by exactly
      | contract | _row_kind |
    And reports.days differs since epoch 0 by exactly
      | day | _row_kind |

  Scenario: All rows of the first version are added rows
    Then reports.projects differs since epoch -1 by exactly
      | project | contracts | _row_kind |
      | 1       | 2         | +I        |
      | 2       | 1         | +I        |

  Scenario: A version is read by its label, the watermark of its inputs
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-05 09:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-03 09:00 |
    Then reports.projects of label 2024-03-02T09:00:00Z shows exactly
      | project | contracts |
      | 1       | 2         |
      | 2       | 1         |
    And reports.projects of label 2024-03-05T09:00:00Z shows exactly
      | project | contracts |
      | 1       | 4         |
      | 2       | 1         |
    And contract_rank.ranks of label 2024-03-02T09:00:00Z shows exactly
      | contract | rank |
      | 11       | 1    |
      | 12       | 2    |
      | 21       | 1    |
    And asking reports.projects of label 2024-03-03T09:00:00Z fails with VersionNotFound

  Scenario: Reading an expired version by its label fails too
    Given the setting backend.retain = { versions = 1 }
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-05 09:00 |
    And reports expires its old versions
    Then asking reports.projects of label 2024-03-02T09:00:00Z fails with VersionExpired
    And reports.projects of label 2024-03-05T09:00:00Z shows exactly
      | project | contracts |
      | 1       | 3         |
      | 2       | 1         |

  Scenario: The columns of a published table may change between two versions
    Given the setting pipelines.reports.tables.projects = "SELECT project, count(*) AS contracts, max(rank) AS worst FROM ranks GROUP BY project"
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-05 09:00 |
    Then reports.projects differs since epoch 0 by exactly
      | project | contracts | worst | _row_kind |
      | 1       | 2         |       | -U        |
      | 1       | 3         | 3     | +U        |
      | 2       | 1         |       | -U        |
      | 2       | 1         | 1     | +U        |

  Scenario: A wait ends immediately if the watermark has been reached, and otherwise at its timeout
    Then reports has reached the watermark 2024-03-02 09:00 at epoch 0
    And waiting 5s for reports to reach the watermark 2024-03-03 fails with WaitTimeout
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-05 09:00 |
    Then reports has reached the watermark 2024-03-03 at epoch 1

  Scenario: A read that may outlast the retention is refused when it begins, and allowed under a lease
    Given the setting pipelines.reports.retain = { versions = 3 }
    Then reading reports.projects for 44m is allowed
    And reading reports.projects for 46m fails with RetentionTooShort
    Given a reader leases reports
    Then reading reports.projects for 46m is allowed

  Scenario: Versions that come faster than the schedule leave less time for a read
    Given the setting pipelines.reports.retain = { versions = 3 }
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-05 09:00 |
    Then reading reports.projects for 16m fails with RetentionTooShort
    Given the setting pipelines.reports.retain = { versions = 3, duration = "20m" }
    Then reading reports.projects for 16m is allowed

  Scenario: What reads a pipeline that was rebuilt computes its rows again
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    And the setting pipelines.reports.tables.projects = "SELECT project, max(contract) AS contracts FROM ranks WHERE rank = 1 GROUP BY project"
    When contract_rank is rebuilt
    And all pipelines run until idle
    Then reports.projects shows exactly
      | project | contracts |
      | 1       | 12        |
      | 2       | 21        |
