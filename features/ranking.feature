Feature: Ranking with a historical snapshot
  Which contract of this project is this one, over all history, now?
  The rank is exact after every epoch, whatever came late, changed or went.

  Background:
    Given contracts with a project, a contract, a sign_time and an amount
    And they are ranked by sign_time within each project, in segments of 1d

  @core
  Scenario: Ranks go on where the days before ended
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
      | 2       | 21       | 2024-03-01 10:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-02 08:00 |
      | 2       | 22       | 2024-03-09 08:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 3    |
      | 2       | 21       | 1    |
      | 2       | 22       | 2    |

  @core
  Scenario: A late row moves its own day and all days after it
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
      | 1       | 13       | 2024-03-03 09:00 |
      | 2       | 21       | 2024-03-01 10:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-01 08:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 14       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 13       | 4    |
      | 2       | 21       | 1    |
    And the last epoch moved
      | row_kind | contract | old_rank | new_rank |
      | +I       | 14       |          | 1        |
      | +U       | 11       | 1        | 2        |
      | +U       | 12       | 2        | 3        |
      | +U       | 13       | 3        | 4        |

  Scenario: Equal order values share a rank, also when they come in different epochs
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 10:00 |
      | 1       | 14       | 2024-03-01 11:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 1       | 14       | 3    |

  Scenario Outline: The three methods, both ways round
    Given the method is <method>, <direction>
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 09:00 |
      | 1       | 13       | 2024-03-02 09:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-01 09:00 |
      | 1       | 15       | 2024-03-02 10:00 |
    Then contracts 11, 12, 14, 13 and 15 have the ranks <ranks>

    Examples:
      | method     | direction  | ranks         |
      | dense_rank | ascending  | 1, 1, 1, 2, 3 |
      | rank       | ascending  | 1, 1, 1, 4, 5 |
      | row_number | ascending  | 1, 2, 3, 4, 5 |
      | dense_rank | descending | 3, 3, 3, 2, 1 |
      | rank       | descending | 3, 3, 3, 2, 1 |
      | row_number | descending | 3, 4, 5, 2, 1 |

  Scenario: Three rows at the very instant where a day begins belong to that day together
    When an epoch brings
      | project | contract | sign_time           |
      | 1       | 11       | 2024-03-01 23:59:59 |
      | 1       | 12       | 2024-03-02 00:00:00 |
    And an epoch brings
      | project | contract | sign_time           |
      | 1       | 13       | 2024-03-02 00:00:00 |
      | 1       | 14       | 2024-03-02 00:00:00 |
      | 1       | 15       | 2024-03-02 00:00:01 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 1       | 14       | 2    |
      | 1       | 15       | 3    |
    And the bases are
      | project | start                | end                  | base_rank |
      | 1       | 2024-03-01T00:00:00Z | 2024-03-02T00:00:00Z | 0         |
      | 1       | 2024-03-02T00:00:00Z |                      | 1         |

  Scenario: Days of another time zone
    Given segments are days of Asia/Shanghai
    When an epoch brings
      | project | contract | sign_time           |
      | 1       | 11       | 2024-03-01 15:59:59 |
      | 1       | 12       | 2024-03-01 16:00:00 |
    Then the bases are
      | project | start                | end                  | base_rank |
      | 1       | 2024-02-29T16:00:00Z | 2024-03-01T16:00:00Z | 0         |
      | 1       | 2024-03-01T16:00:00Z |                      | 1         |

  @core
  Scenario: A changelog: the only holder of a value goes, one of two goes, and one changes its project
    Given the rows are a changelog
    When an epoch brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
      | +I   | 1       | 12       | 2024-03-01 10:00 |
      | +I   | 1       | 13       | 2024-03-01 10:00 |
      | +I   | 1       | 14       | 2024-03-02 10:00 |
      | +I   | 2       | 21       | 2024-03-01 10:00 |
    And an epoch brings
      | kind | project | contract | sign_time        |
      | -D   | 1       | 12       | 2024-03-01 10:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 13       | 2    |
      | 1       | 14       | 3    |
      | 2       | 21       | 1    |
    When an epoch brings
      | kind | project | contract | sign_time        |
      | -D   | 1       | 11       | 2024-03-01 09:00 |
      | -U   | 1       | 14       | 2024-03-02 10:00 |
      | +U   | 2       | 14       | 2024-03-01 08:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 2       | 14       | 1    |
      | 2       | 21       | 2    |

  Scenario: An update that moves a row without naming where it was
    Given the rows are a changelog
    When an epoch brings
      | kind | project | contract | sign_time        |
      | c    | 1       | 11       | 2024-03-01 09:00 |
      | c    | 1       | 12       | 2024-03-05 09:00 |
    And an epoch brings
      | kind | project | contract | sign_time        |
      | u    | 1       | 11       | 2024-03-09 09:00 |
    And an epoch brings
      | kind | project | contract | sign_time |
      | d    |         | 12       |           |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |

  @core
  Scenario: The same event twice counts once
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-01 10:00 |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 13       | 2024-03-02 10:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 3    |

  @core
  Scenario: A row without a group goes to the dead letters with the reason
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      |         | 12       | 2024-03-01 10:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
    And the dead letters are
      | epoch | reason                       |
      | 0     | group column project is null |

  Scenario Outline: Rows without an order value have a stated place, and are equal to each other
    Given the method is dense_rank, <direction>, with nulls <place>
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       |                  |
      | 1       | 12       | 2024-03-01 10:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       |                  |
      | 1       | 14       | 2024-03-02 10:00 |
    Then contracts 11, 12, 13 and 14 have the ranks <ranks>

    Examples:
      | direction  | place | ranks      |
      | ascending  | last  | 3, 1, 3, 2 |
      | ascending  | first | 1, 2, 1, 3 |
      | descending | last  | 3, 2, 3, 1 |
      | descending | first | 1, 3, 1, 2 |

  Scenario: The first rows of each project
    Given the view top shows 2 ranks
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
      | 1       | 13       | 2024-03-02 09:00 |
      | 1       | 14       | 2024-03-03 09:00 |
      | 2       | 21       | 2024-03-05 09:00 |
    Then the top ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
      | 1       | 13       | 2    |
      | 2       | 21       | 1    |

  @core
  Scenario: What was the rank as of a time, and what was it thought to be
    Given the method is dense_rank, descending
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-05 09:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-02 09:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 13       | 2    |
      | 1       | 11       | 3    |
    And the ranks as of 2024-03-03 00:00 are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
    And the ranks as known at epoch 0 are
      | project | contract | rank |
      | 1       | 12       | 1    |
      | 1       | 11       | 2    |

  @core
  Scenario: A view kept as a plain table follows every epoch
    Given the view ranks is materialized
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    Then the table ranks holds
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  Scenario: Nothing at all is a valid answer
    When an epoch brings
      | project | contract | sign_time |
    Then there are no ranks
