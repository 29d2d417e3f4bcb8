Feature: Ranking with a historical snapshot
  What is the rank of this contract in its project, over all history, now?
  The rank is exact after every epoch, whichever rows came late, changed or were deleted.

  Background:
    Given the deployment contracts.toml

  @core
  Scenario: Ranks continue where the earlier days ended
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
      | 2       | 21       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-02 08:00 |
      | 2       | 22       | 2024-03-09 08:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 3    |
      | 2       | 21       | 1    |
      | 2       | 22       | 2    |

  @core @lake
  Scenario: A late row changes the ranks of its own day and of all later days
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
      | 1       | 13       | 2024-03-03 09:00 |
      | 2       | 21       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-01 08:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 14       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 13       | 4    |
      | 2       | 21       | 1    |
    And contract_rank.changes shows exactly
      | row_kind | contract | old_rank | new_rank |
      | +I       | 14       |          | 1        |
      | +U       | 11       | 1        | 2        |
      | +U       | 12       | 2        | 3        |
      | +U       | 13       | 3        | 4        |

  Scenario: Equal order values share a rank, even if they come in different epochs
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 10:00 |
      | 1       | 14       | 2024-03-01 11:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 1       | 14       | 3    |

  Scenario Outline: The three methods, ascending and descending
    Given the setting pipelines.contract_rank.method = "<method>"
    And the setting pipelines.contract_rank.order_by = "<order_by>"
    And the setting pipelines.contract_rank.tie_break = <ties>
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 09:00 |
      | 1       | 13       | 2024-03-02 09:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-01 09:00 |
      | 1       | 15       | 2024-03-02 10:00 |
    Then contract_rank.ranks shows exactly
      | contract | rank  |
      | 11       | <r11> |
      | 12       | <r12> |
      | 13       | <r13> |
      | 14       | <r14> |
      | 15       | <r15> |

    Examples:
      | method     | order_by   | ties         | r11 | r12 | r14 | r13 | r15 |
      | dense_rank | sign_time  | []           | 1   | 1   | 1   | 2   | 3   |
      | rank       | sign_time  | []           | 1   | 1   | 1   | 4   | 5   |
      | row_number | sign_time  | ["contract"] | 1   | 2   | 3   | 4   | 5   |
      | dense_rank | -sign_time | []           | 3   | 3   | 3   | 2   | 1   |
      | rank       | -sign_time | []           | 3   | 3   | 3   | 2   | 1   |
      | row_number | -sign_time | ["contract"] | 3   | 4   | 5   | 2   | 1   |

  Scenario: Three rows at the first instant of a day all belong to that day
    When an epoch of contracts brings
      | project | contract | sign_time           |
      | 1       | 11       | 2024-03-01 23:59:59 |
      | 1       | 12       | 2024-03-02 00:00:00 |
    And an epoch of contracts brings
      | project | contract | sign_time           |
      | 1       | 13       | 2024-03-02 00:00:00 |
      | 1       | 14       | 2024-03-02 00:00:00 |
      | 1       | 15       | 2024-03-02 00:00:01 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 1       | 14       | 2    |
      | 1       | 15       | 3    |
    And contract_rank.base shows exactly
      | project | start                | end                  | base_rank |
      | 1       | 2024-03-01T00:00:00Z | 2024-03-02T00:00:00Z | 0         |
      | 1       | 2024-03-02T00:00:00Z |                      | 1         |

  Scenario: Days of another time zone
    Given the setting pipelines.contract_rank.time_zone = "Asia/Shanghai"
    When an epoch of contracts brings
      | project | contract | sign_time           |
      | 1       | 11       | 2024-03-01 15:59:59 |
      | 1       | 12       | 2024-03-01 16:00:00 |
    Then contract_rank.base shows exactly
      | project | start                | end                  | base_rank |
      | 1       | 2024-02-29T16:00:00Z | 2024-03-01T16:00:00Z | 0         |
      | 1       | 2024-03-01T16:00:00Z |                      | 1         |

  Scenario: A day that starts in an hour which the clock shows twice starts once
    Given the setting pipelines.contract_rank.time_zone = "Europe/Berlin"
    And the setting pipelines.contract_rank.offset = "2h30m"
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-10-27 00:10 |
      | 1       | 12       | 2024-10-27 00:40 |
      | 1       | 13       | 2024-10-27 01:10 |
      | 1       | 14       | 2024-10-27 01:40 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 3    |
      | 1       | 14       | 4    |
    And contract_rank.base shows exactly
      | project | start                | end                  | base_rank |
      | 1       | 2024-10-26T00:30:00Z | 2024-10-27T00:30:00Z | 0         |
      | 1       | 2024-10-27T00:30:00Z |                      | 1         |

  Scenario: A day that starts in an hour which the clock skips starts when the clock jumps
    Given the setting pipelines.contract_rank.time_zone = "Europe/Berlin"
    And the setting pipelines.contract_rank.offset = "2h30m"
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-31 00:59 |
      | 1       | 12       | 2024-03-31 01:00 |
      | 1       | 13       | 2024-03-31 01:40 |
    Then contract_rank.base shows exactly
      | project | start                | end                  | base_rank |
      | 1       | 2024-03-30T01:30:00Z | 2024-03-31T01:00:00Z | 0         |
      | 1       | 2024-03-31T01:00:00Z |                      | 1         |

  Scenario: The last microsecond of a day far in the future belongs to that day, and the year 1 has days too
    When an epoch of contracts brings
      | project | contract | sign_time                  |
      | 1       | 11       | 2999-12-31 23:59:59.999999 |
      | 1       | 12       | 3000-01-01 00:00:00        |
      | 2       | 21       | 0001-01-01 00:00:00        |
      | 2       | 22       | 9999-12-31 23:59:59.999999 |
    Then contract_rank.base shows exactly
      | project | start                | end                  | base_rank |
      | 1       | 2999-12-31T00:00:00Z | 3000-01-01T00:00:00Z | 0         |
      | 1       | 3000-01-01T00:00:00Z |                      | 1         |
      | 2       | 0001-01-01T00:00:00Z | 9999-12-31T00:00:00Z | 0         |
      | 2       | 9999-12-31T00:00:00Z |                      | 1         |

  Scenario: A changelog: the only row with a value is deleted, one of two is deleted, and one changes its project
    Given the setting sources.contracts.schema = "kind string, project bigint, contract bigint, sign_time timestamp"
    And the setting sources.contracts.row_kind = "kind"
    When an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
      | +I   | 1       | 12       | 2024-03-01 10:00 |
      | +I   | 1       | 13       | 2024-03-01 10:00 |
      | +I   | 1       | 14       | 2024-03-02 10:00 |
      | +I   | 2       | 21       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | -D   | 1       | 12       | 2024-03-01 10:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 13       | 2    |
      | 1       | 14       | 3    |
      | 2       | 21       | 1    |
    When an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | -D   | 1       | 11       | 2024-03-01 09:00 |
      | -U   | 1       | 14       | 2024-03-02 10:00 |
      | +U   | 2       | 14       | 2024-03-01 08:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 2       | 14       | 1    |
      | 2       | 21       | 2    |

  Scenario: An update that moves a row without its old image
    Given the setting sources.contracts.schema = "kind string, project bigint, contract bigint, sign_time timestamp"
    And the setting sources.contracts.row_kind = "kind"
    When an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | c    | 1       | 11       | 2024-03-01 09:00 |
      | c    | 1       | 12       | 2024-03-05 09:00 |
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | u    | 1       | 11       | 2024-03-09 09:00 |
    And an epoch of contracts brings
      | kind | project | contract | sign_time |
      | d    |         | 12       |           |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |

  @core
  Scenario: The same event twice counts once
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 10:00 |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 13       | 2024-03-02 10:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 3    |

  @core
  Scenario: A row without a group goes to the dead letters with the reason
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      |         | 12       | 2024-03-01 10:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
    And the dead letters of contract_rank are exactly
      | epoch | reason                       |
      | 0     | group column project is null |

  Scenario Outline: Rows without an order value come first or last, and are equal to each other
    Given the setting pipelines.contract_rank.order_by = "<order_by>"
    And the setting pipelines.contract_rank.nulls = "<place>"
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       |                  |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       |                  |
      | 1       | 14       | 2024-03-02 10:00 |
    Then contract_rank.ranks shows exactly
      | contract | rank  |
      | 11       | <r11> |
      | 12       | <r12> |
      | 13       | <r13> |
      | 14       | <r14> |

    Examples:
      | order_by   | place | r11 | r12 | r13 | r14 |
      | sign_time  | last  | 3   | 1   | 3   | 2   |
      | sign_time  | first | 1   | 2   | 1   | 3   |
      | -sign_time | last  | 3   | 2   | 3   | 1   |
      | -sign_time | first | 1   | 3   | 1   | 2   |

  Scenario: The first rows of each project
    Given the setting pipelines.contract_rank.top = 2
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
      | 1       | 13       | 2024-03-02 09:00 |
      | 1       | 14       | 2024-03-03 09:00 |
      | 2       | 21       | 2024-03-05 09:00 |
    Then contract_rank.top shows exactly
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 2       | 21       | 1    |

  @core
  Scenario: The rank as of a time, and the rank as known at that time
    Given the setting pipelines.contract_rank.order_by = "-sign_time"
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-05 09:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-02 09:00 |
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 13       | 2    |
      | 1       | 11       | 3    |
    And contract_rank.ranks as of 2024-03-03 00:00 shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
    And contract_rank.ranks as known at epoch 0 shows exactly
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |

  Scenario: A view that is stored as a plain table follows every epoch
    Given the setting pipelines.contract_rank.materialize = ["ranks"]
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    Then the table contract_rank.ranks holds exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  Scenario: Nothing at all is a valid answer
    When an epoch of contracts brings
      | project | contract | sign_time |
    Then contract_rank.ranks shows nothing

  Scenario: Columns may have the names of the view's own columns
    Given the setting sources.contracts.schema = "Start bigint, contract bigint, sign_time timestamp, rank string, old_rank bigint"
    And the setting pipelines.contract_rank.group = ["Start"]
    And the setting pipelines.contract_rank.materialize = ["ranks"]
    When an epoch of contracts brings
      | Start | contract | sign_time        | rank    | old_rank |
      | 1     | 11       | 2024-03-02 09:00 | major   | 7        |
    And an epoch of contracts brings
      | Start | contract | sign_time        | rank    | old_rank |
      | 1     | 12       | 2024-03-01 09:00 | general | 8        |
    Then contract_rank.ranks shows exactly
      | Start | contract | rank    | _rank |
      | 1     | 12       | general | 1     |
      | 1     | 11       | major   | 2     |
    And contract_rank.base shows exactly
      | Start | _start           | end              | base_rank |
      | 1     | 2024-03-01 00:00 | 2024-03-02 00:00 | 0         |
      | 1     | 2024-03-02 00:00 |                  | 1         |
    And contract_rank.changes since epoch 0 shows exactly
      | row_kind | contract | rank    | old_rank | _old_rank | new_rank |
      | +I       | 12       | general | 8        |           | 1        |
      | +U       | 11       | major   | 7        | 1         | 2        |
    And the table contract_rank.ranks holds exactly
      | Start | contract | rank    | _rank |
      | 1     | 12       | general | 1     |
      | 1     | 11       | major   | 2     |

  Scenario: If settings have changed that stored ranks depend on, the error names them
    When an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
    And the setting pipelines.contract_rank.method = "rank"
    Then running contract_rank fails with ConfigError: built with other settings: method dense_rank -> rank; its tables
    When the setting pipelines.contract_rank.group = ["contract"]
    Then running contract_rank fails with ConfigError: group project -> contract, method dense_rank -> rank; its tables
    When the setting pipelines.contract_rank.group = ["project"]
    And the setting pipelines.contract_rank.method = "dense_rank"
    And an epoch of contracts brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 08:00 |
    Then contract_rank.ranks shows exactly
      | contract | rank |
      | 12       | 1    |
      | 11       | 2    |
