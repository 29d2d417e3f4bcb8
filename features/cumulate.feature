Feature: Cumulate windows
  Today's page views and visitors, one point per minute: a curve that never dips, and is the same on every run.
  At every step that the watermark passes, each group gets a tick: the totals of the window until then.

  Background:
    Given the deployment views.toml

  @core @lake
  Scenario: The day so far, one point per minute
    When an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:00:10 | a    | ann     |
      | 2024-03-01 00:00:40 | b    | ann     |
      | 2024-03-01 00:01:05 | a    | bob     |
    And an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:01:50 | a    | ann     |
      | 2024-03-01 00:03:00 | b    | cat     |
    Then page_views.ticks shows exactly
      | window_start     | tick             | grouping | page | pv | uv | revision |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | page     | a    | 1  | 1  | 0        |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | page     | b    | 1  | 1  | 0        |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | ""       |      | 2  | 1  | 0        |
      | 2024-03-01 00:00 | 2024-03-01 00:02 | page     | a    | 3  | 2  | 0        |
      | 2024-03-01 00:00 | 2024-03-01 00:02 | ""       |      | 4  | 2  | 0        |

  Scenario: A pane includes its start and excludes its end
    When an epoch of views brings
      | at                         | page |
      | 2024-03-01 00:04:59.999999 | a    |
      | 2024-03-01 00:05:00        | a    |
      | 2024-03-01 00:06:00        | a    |
    Then page_views.ticks_total shows exactly
      | tick             | pv |
      | 2024-03-01 00:05 | 1  |
      | 2024-03-01 00:06 | 2  |

  Scenario: A watermark that passes several steps makes the ticks of each step
    Given the setting pipelines.page_views.ticks = "dense"
    When an epoch of views brings
      | at                  | page |
      | 2024-03-01 23:56:30 | a    |
      | 2024-03-01 23:58:10 | b    |
    And an epoch of views brings
      | at                  | page |
      | 2024-03-02 00:02:00 | a    |
    Then page_views.ticks shows exactly
      | window_start     | tick             | grouping | page | pv |
      | 2024-03-01 00:00 | 2024-03-01 23:57 | page     | a    | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:57 | ""       |      | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:58 | page     | a    | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:58 | ""       |      | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:59 | page     | a    | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:59 | page     | b    | 1  |
      | 2024-03-01 00:00 | 2024-03-01 23:59 | ""       |      | 2  |
      | 2024-03-01 00:00 | 2024-03-02 00:00 | page     | a    | 1  |
      | 2024-03-01 00:00 | 2024-03-02 00:00 | page     | b    | 1  |
      | 2024-03-01 00:00 | 2024-03-02 00:00 | ""       |      | 2  |

  Scenario: The page null is not the same as all pages
    When an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:00:10 |      | ann     |
      | 2024-03-01 00:00:20 | ""   | ann     |
      | 2024-03-01 00:00:30 | a    | bob     |
      | 2024-03-01 00:01:00 | a    | bob     |
    Then page_views.ticks shows exactly
      | tick             | grouping | page | pv | uv |
      | 2024-03-01 00:01 | page     |      | 1  | 1  |
      | 2024-03-01 00:01 | page     | ""   | 1  | 1  |
      | 2024-03-01 00:01 | page     | a    | 1  | 1  |
      | 2024-03-01 00:01 | ""       |      | 3  | 2  |

  Scenario: The curve continues at night, when no rows arrive
    Given the setting sources.views.idle_after = "5m"
    And the setting pipelines.page_views.ticks = "dense"
    And an epoch of views brings
      | at                  | page |
      | 2023-12-31 23:59:10 | a    |
      | 2023-12-31 23:59:50 | b    |
    Then page_views.ticks shows nothing
    When 4m passes
    And all pipelines run until idle
    Then page_views.ticks shows nothing
    When 3m passes
    And all pipelines run until idle
    Then page_views.ticks shows exactly
      | tick             | grouping | page | pv |
      | 2024-01-01 00:00 | page     | a    | 1  |
      | 2024-01-01 00:00 | page     | b    | 1  |
      | 2024-01-01 00:00 | ""       |      | 2  |
    And page_views has published 2 epochs

  Scenario: A curve to draw has every step, with null for a missing tick
    When an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:00:10 | a    | ann     |
      | 2024-03-01 00:02:10 | b    | ann     |
      | 2024-03-01 00:03:40 | a    | bob     |
    Then page_views.curve shows exactly
      | window_start     | tick             | page | pv | uv |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | a    | 1  | 1  |
      | 2024-03-01 00:00 | 2024-03-01 00:02 | a    |    |    |
      | 2024-03-01 00:00 | 2024-03-01 00:03 | a    |    |    |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | b    |    |    |
      | 2024-03-01 00:00 | 2024-03-01 00:02 | b    |    |    |
      | 2024-03-01 00:00 | 2024-03-01 00:03 | b    | 1  | 1  |
    And page_views.curve_total shows exactly
      | tick             | pv | uv |
      | 2024-03-01 00:01 | 1  | 1  |
      | 2024-03-01 00:02 |    |    |
      | 2024-03-01 00:03 | 2  | 1  |

  Scenario: Work that a crash left unfinished is counted once
    When these rows arrive at views
      | at                  | page | visitor |
      | 2024-03-01 00:00:10 | a    | ann     |
      | 2024-03-01 00:02:10 | b    | ann     |
    And page_views crashes after the first commit
    And these rows arrive at views
      | at                  | page | visitor |
      | 2024-03-01 00:02:50 | b    | bob     |
      | 2024-03-01 00:03:10 | b    | ann     |
    And all pipelines run until idle
    Then page_views.ticks_total shows exactly
      | tick             | pv | uv |
      | 2024-03-01 00:01 | 1  | 1  |
      | 2024-03-01 00:03 | 3  | 2  |

  Scenario: The ticks of a dimension set are also stored as a plain table
    Given the setting pipelines.page_views.materialize = ["ticks_page"]
    And the setting pipelines.page_views.late = "revise"
    When an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:00:10 | a    | ann     |
      | 2024-03-01 00:01:10 | a    | ann     |
    And an epoch of views brings
      | at                  | page | visitor |
      | 2024-03-01 00:00:20 | a    | bob     |
      | 2024-03-01 00:00:20 | b    | bob     |
    Then the table page_views.ticks_page holds exactly
      | tick             | page | pv | uv | revision |
      | 2024-03-01 00:01 | a    | 2  | 2  | 1        |
      | 2024-03-01 00:01 | b    | 1  | 1  | 0        |

  Scenario: The day's orders, from the changes of a database
    Given the deployment
      """
      [sources.orders]
      kind = "kafka"
      servers = "127.0.0.1:9092"
      topics = ["shop"]
      format = "maxwell-json"
      tables = ["shop.orders"]
      schema = "order_id bigint, state string, amount decimal(9,2), changed timestamp"
      metadata = { changed = "commit_time" }
      event_time = "changed"

      [pipelines.orders]
      service = "cumulate"
      source = "orders"
      step = "1h"
      dimensions = [["state"]]
      measures = { orders = "count(*)", amount = "sum(amount)" }
      """
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1709251200,"data":{"order_id":1,"state":"new","amount":10.50}}
      {"database":"shop","table":"orders","type":"insert","ts":1709251260,"data":{"order_id":2,"state":"new","amount":2.25}}
      {"database":"shop","table":"orders","type":"update","ts":1709254800,"data":{"order_id":1,"state":"paid","amount":10.50},"old":{"state":"new"}}
      {"database":"shop","table":"orders","type":"delete","ts":1709258400,"data":{"order_id":2,"state":"new","amount":2.25}}
      {"database":"shop","table":"orders","type":"insert","ts":1709262000,"data":{"order_id":3,"state":"paid","amount":1.00}}
      """
    And all pipelines run until idle
    Then orders.ticks shows exactly
      | tick             | grouping | state | orders | amount |
      | 2024-03-01 01:00 | state    | new   | 2      | 12.75  |
      | 2024-03-01 02:00 | state    | new   | 1      | 2.25   |
      | 2024-03-01 02:00 | state    | paid  | 1      | 10.50  |
      | 2024-03-01 03:00 | state    | new   | 0      |        |

  Scenario: A row without a time becomes a dead letter with the reason
    When an epoch of views brings
      | at                  | page |
      |                     | a    |
      | 2024-03-01 00:01:00 | a    |
    Then the dead letters of page_views are exactly
      | reason                                  |
      | column at is null, so it has no pane    |

  Scenario: Dimensions and measures may have the names of the view's own columns
    Given the setting sources.views.schema = "at timestamp, grouping string, tick string"
    And the setting pipelines.page_views.dimensions = [["grouping"], []]
    And the setting pipelines.page_views.measures = { tick = "count(distinct tick)", revision = "count(*)" }
    And the setting pipelines.page_views.late = "revise"
    When an epoch of views brings
      | at                  | grouping | tick |
      | 2024-03-01 00:00:10 | a        | ann  |
      | 2024-03-01 00:01:05 | a        | bob  |
    And an epoch of views brings
      | at                  | grouping | tick |
      | 2024-03-01 00:00:50 | a        | cat  |
    Then page_views.ticks_grouping shows exactly
      | window_start     | _tick            | grouping | tick | revision | _revision |
      | 2024-03-01 00:00 | 2024-03-01 00:01 | a        | 2    | 2        | 1         |
    And page_views.ticks shows exactly
      | _tick            | _grouping | grouping | tick | revision | _revision |
      | 2024-03-01 00:01 | grouping  | a        | 2    | 2        | 1         |
      | 2024-03-01 00:01 | ""        |          | 2    | 2        | 1         |
    And page_views.curve_grouping shows exactly
      | _tick            | grouping | tick | revision |
      | 2024-03-01 00:01 | a        | 2    | 2        |

  Scenario: A row whose pane ends after the year 9999 becomes a dead letter, and rows of its window and the year 1 count
    Given the setting sources.views.watermark_delay = "2m"
    When an epoch of views brings
      | at                         | page |
      | 0001-01-01 00:00:00        | a    |
    And an epoch of views brings
      | at                         | page |
      | 2999-12-31 23:59:59.999999 | a    |
      | 9999-12-31 23:59:59.999999 | a    |
      | 3000-01-01 00:02:00        | b    |
    And an epoch of views brings
      | at                         | page |
      | 9999-12-31 23:55:30        | a    |
      | 9999-12-31 23:58:10        | a    |
    Then the dead letters of page_views are exactly
      | reason                                                                                    |
      | column at: its window starts before 0001-01-01, or its pane ends after 9999-12-31, in UTC |
    And page_views.ticks_page shows exactly
      | window_start     | tick             | page | pv |
      | 0001-01-01 00:00 | 0001-01-01 00:01 | a    | 1  |
      | 2999-12-31 00:00 | 3000-01-01 00:00 | a    | 1  |
      | 3000-01-01 00:00 | 3000-01-01 00:03 | b    | 1  |
      | 9999-12-31 00:00 | 9999-12-31 23:56 | a    | 1  |

  Rule: The errors of early triggers do not occur

    Scenario: The curve does not dip if rows arrive out of order
      Given the setting sources.views.watermark_delay = "2m"
      When an epoch of views brings
        | at                  | page |
        | 2024-03-01 00:02:30 | a    |
        | 2024-03-01 00:00:30 | a    |
        | 2024-03-01 00:01:30 | a    |
      And an epoch of views brings
        | at                  | page |
        | 2024-03-01 00:02:40 | a    |
        | 2024-03-01 00:01:10 | a    |
        | 2024-03-01 00:05:00 | a    |
      Then page_views.ticks_total shows exactly
        | tick             | pv | revision |
        | 2024-03-01 00:01 | 1  | 0        |
        | 2024-03-01 00:02 | 3  | 0        |
        | 2024-03-01 00:03 | 5  | 0        |

    Scenario Outline: The curve is the same when it is drawn again, however its rows are batched
      Given the setting sources.views.watermark_delay = "2m"
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:02:30 | a    | ann     |
        | 2024-03-01 00:00:30 | b    | bob     |
      And <then>
        | at                  | page | visitor |
        | 2024-03-01 00:01:10 | a    | bob     |
      And <then>
        | at                  | page | visitor |
        | 2024-03-01 00:05:10 | a    | cat     |
      And all pipelines run until idle
      Then page_views.ticks shows exactly
        | tick             | grouping | page | pv | uv | revision |
        | 2024-03-01 00:01 | page     | b    | 1  | 1  | 0        |
        | 2024-03-01 00:01 | ""       |      | 1  | 1  | 0        |
        | 2024-03-01 00:02 | page     | a    | 1  | 1  | 0        |
        | 2024-03-01 00:02 | ""       |      | 2  | 1  | 0        |
        | 2024-03-01 00:03 | page     | a    | 2  | 2  | 0        |
        | 2024-03-01 00:03 | ""       |      | 3  | 2  | 0        |

      Examples:
        | then                       |
        | an epoch of views brings   |
        | these rows arrive at views |

    Scenario: At every tick the groups add up to the total
      Given the setting pipelines.page_views.ticks = "dense"
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:10 | a    | ann     |
        | 2024-03-01 00:01:20 | b    | ann     |
        | 2024-03-01 00:02:30 | a    | ann     |
      And an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:02:40 | b    | bob     |
        | 2024-03-01 00:04:00 | a    | ann     |
      Then page_views.ticks shows exactly
        | tick             | grouping | page | pv |
        | 2024-03-01 00:01 | page     | a    | 1  |
        | 2024-03-01 00:01 | ""       |      | 1  |
        | 2024-03-01 00:02 | page     | a    | 1  |
        | 2024-03-01 00:02 | page     | b    | 1  |
        | 2024-03-01 00:02 | ""       |      | 2  |
        | 2024-03-01 00:03 | page     | a    | 2  |
        | 2024-03-01 00:03 | page     | b    | 2  |
        | 2024-03-01 00:03 | ""       |      | 4  |
        | 2024-03-01 00:04 | page     | a    | 2  |
        | 2024-03-01 00:04 | page     | b    | 2  |
        | 2024-03-01 00:04 | ""       |      | 4  |

  Rule: A row is late if its pane already has its tick

    Background:
      Given an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:10 | a    | ann     |
        | 2024-03-01 00:01:20 | a    | bob     |
        | 2024-03-01 00:03:00 | b    | ann     |

    Scenario: A late row becomes a dead letter, and the curve does not change
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:50 | a    | cat     |
        | 2024-03-01 00:03:10 | a    | ann     |
        | 2024-03-01 00:04:00 | a    | ann     |
      Then page_views.ticks_page shows exactly
        | tick             | page | pv | uv | revision |
        | 2024-03-01 00:01 | a    | 1  | 1  | 0        |
        | 2024-03-01 00:02 | a    | 2  | 2  | 0        |
        | 2024-03-01 00:04 | a    | 3  | 2  | 0        |
        | 2024-03-01 00:04 | b    | 1  | 1  | 0        |
      And the dead letters of page_views are exactly
        | epoch | reason                                                  |
        | 1     | late: the tick at the end of its pane was there already |

    @core
    Scenario: A late row makes a new revision of the ticks that it changes, and earlier revisions stay
      Given the setting pipelines.page_views.late = "revise"
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:50 | a    | bob     |
      Then page_views.ticks_page shows exactly
        | tick             | page | pv | uv | revision |
        | 2024-03-01 00:01 | a    | 2  | 2  | 1        |
        | 2024-03-01 00:02 | a    | 3  | 2  | 1        |
      And page_views.revisions shows exactly
        | tick             | grouping | page | pv | uv | revision |
        | 2024-03-01 00:01 | page     | a    | 1  | 1  | 0        |
        | 2024-03-01 00:01 | page     | a    | 2  | 2  | 1        |
        | 2024-03-01 00:02 | page     | a    | 2  | 2  | 0        |
        | 2024-03-01 00:02 | page     | a    | 3  | 2  | 1        |
        | 2024-03-01 00:01 | ""       |      | 1  | 1  | 0        |
        | 2024-03-01 00:01 | ""       |      | 2  | 2  | 1        |
        | 2024-03-01 00:02 | ""       |      | 2  | 2  | 0        |
        | 2024-03-01 00:02 | ""       |      | 3  | 2  | 1        |
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:04:00 | b    | bob     |
      Then page_views.ticks_total shows exactly
        | tick             | pv | uv | revision |
        | 2024-03-01 00:01 | 2  | 2  | 1        |
        | 2024-03-01 00:02 | 3  | 2  | 1        |
        | 2024-03-01 00:04 | 4  | 2  | 0        |

    Scenario: A late row makes a tick if its group had none
      Given the setting pipelines.page_views.late = "revise"
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:02:50 | a    | ann     |
      Then page_views.ticks_page shows exactly
        | tick             | page | pv | uv | revision |
        | 2024-03-01 00:01 | a    | 1  | 1  | 0        |
        | 2024-03-01 00:02 | a    | 2  | 2  | 0        |
        | 2024-03-01 00:03 | a    | 3  | 2  | 0        |

    Scenario: Late rows among the dead letters count after late rows are allowed to revise
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:50 | a    | cat     |
      Given the setting pipelines.page_views.late = "revise"
      When the dead letters of page_views are read again
      Then page_views.ticks_total shows exactly
        | tick             | pv | uv | revision |
        | 2024-03-01 00:01 | 2  | 2  | 1        |
        | 2024-03-01 00:02 | 3  | 3  | 1        |
      And page_views.dead_letters shows nothing

  Rule: The order of the rows decides which are late, not where epochs end

    Background:
      Given the setting pipelines.page_views.measures = { pv = "count(*)" }
      And the setting sources.views.files_per_epoch = 5

    Scenario Outline: The same rows in other epochs give the same late rows
      When an epoch of views brings
        | at                  | page |
        | 2024-03-01 00:00:10 | a    |
        | 2024-03-01 00:02:10 | a    |
      And <then>
        | at                  | page |
        | 2024-03-01 00:01:50 | a    |
        | 2024-03-01 00:02:05 | b    |
        | 2024-03-01 00:04:00 | a    |
      And <then>
        | at                  | page |
        | 2024-03-01 00:03:59 | b    |
        | 2024-03-01 00:05:00 | a    |
      And all pipelines run until idle
      Then page_views.ticks_total shows exactly
        | tick             | pv | revision |
        | 2024-03-01 00:01 | 1  | 0        |
        | 2024-03-01 00:03 | 3  | 0        |
        | 2024-03-01 00:05 | 4  | 0        |
      And the dead letters of page_views are exactly
        | reason                                                  |
        | late: the tick at the end of its pane was there already |
        | late: the tick at the end of its pane was there already |

      Examples:
        | then                       |
        | an epoch of views brings   |
        | these rows arrive at views |

    Scenario: A row may be late because of earlier rows of the same epoch
      Given the setting pipelines.page_views.late = "revise"
      When an epoch of views brings
        | at                  | page |
        | 2024-03-01 00:00:10 | a    |
        | 2024-03-01 00:01:30 | a    |
        | 2024-03-01 00:00:20 | a    |
        | 2024-03-01 00:00:30 | a    |
        | 2024-03-01 00:02:30 | a    |
        | 2024-03-01 00:00:40 | a    |
      Then page_views.revisions shows exactly
        | tick             | grouping | page | pv | revision |
        | 2024-03-01 00:01 | page     | a    | 1  | 0        |
        | 2024-03-01 00:01 | page     | a    | 3  | 1        |
        | 2024-03-01 00:01 | page     | a    | 4  | 2        |
        | 2024-03-01 00:02 | page     | a    | 4  | 0        |
        | 2024-03-01 00:02 | page     | a    | 5  | 1        |
        | 2024-03-01 00:01 | ""       |      | 1  | 0        |
        | 2024-03-01 00:01 | ""       |      | 3  | 1        |
        | 2024-03-01 00:01 | ""       |      | 4  | 2        |
        | 2024-03-01 00:02 | ""       |      | 4  | 0        |
        | 2024-03-01 00:02 | ""       |      | 5  | 1        |

    Scenario: Late rows that change no value make no revision, and count in later ticks
      Given the setting pipelines.page_views.measures = { letters = "avg(cast(length(visitor) as decimal(3,0)))" }
      And the setting pipelines.page_views.late = "revise"
      When an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:10 | a    | ann     |
        | 2024-03-01 00:01:30 | a    | bob     |
        | 2024-03-01 00:00:20 | a    | cat     |
        | 2024-03-01 00:02:30 | a    | ann     |
      And an epoch of views brings
        | at                  | page | visitor |
        | 2024-03-01 00:00:40 | a    | claire  |
      Then page_views.revisions shows exactly
        | tick             | grouping | page | letters | revision |
        | 2024-03-01 00:01 | page     | a    | 3.0     | 0        |
        | 2024-03-01 00:01 | page     | a    | 4.0     | 1        |
        | 2024-03-01 00:02 | page     | a    | 3.0     | 0        |
        | 2024-03-01 00:02 | page     | a    | 3.75    | 1        |
        | 2024-03-01 00:01 | ""       |      | 3.0     | 0        |
        | 2024-03-01 00:01 | ""       |      | 4.0     | 1        |
        | 2024-03-01 00:02 | ""       |      | 3.0     | 0        |
        | 2024-03-01 00:02 | ""       |      | 3.75    | 1        |

    Scenario Outline: The same rows in other epochs make the same revisions
      Given the setting pipelines.page_views.late = "revise"
      When an epoch of views brings
        | at                  | page |
        | 2024-03-01 00:00:10 | a    |
        | 2024-03-01 00:01:30 | a    |
        | 2024-03-01 00:00:20 | a    |
      And <then>
        | at                  | page |
        | 2024-03-01 00:00:30 | a    |
      And <then>
        | at                  | page |
        | 2024-03-01 00:02:30 | a    |
        | 2024-03-01 00:00:40 | a    |
      And all pipelines run until idle
      Then page_views.revisions shows exactly
        | tick             | grouping | page | pv | revision |
        | 2024-03-01 00:01 | page     | a    | 1  | 0        |
        | 2024-03-01 00:01 | page     | a    | 3  | 1        |
        | 2024-03-01 00:01 | page     | a    | 4  | 2        |
        | 2024-03-01 00:02 | page     | a    | 4  | 0        |
        | 2024-03-01 00:02 | page     | a    | 5  | 1        |
        | 2024-03-01 00:01 | ""       |      | 1  | 0        |
        | 2024-03-01 00:01 | ""       |      | 3  | 1        |
        | 2024-03-01 00:01 | ""       |      | 4  | 2        |
        | 2024-03-01 00:02 | ""       |      | 4  | 0        |
        | 2024-03-01 00:02 | ""       |      | 5  | 1        |

      Examples:
        | then                       |
        | an epoch of views brings   |
        | these rows arrive at views |

  Rule: Rows may be retracted

    Background:
      Given the setting sources.views.row_kind = "kind"
      And the setting pipelines.page_views.measures = { pv = "count(*)", uv = "count(distinct visitor)", first = "min(visitor)" }

    Scenario: A delete in another pane than its insert
      When an epoch of views brings
        | kind | at                  | page | visitor |
        | +I   | 2024-03-01 00:00:10 | a    | ann     |
        | +I   | 2024-03-01 00:00:20 | a    | bob     |
        | +I   | 2024-03-01 00:01:10 | a    | ann     |
        | -D   | 2024-03-01 00:01:20 | a    | ann     |
      And an epoch of views brings
        | kind | at                  | page | visitor |
        | -D   | 2024-03-01 00:02:20 | a    | ann     |
        | +I   | 2024-03-01 00:04:00 | b    | cat     |
      Then page_views.ticks_page shows exactly
        | tick             | page | pv | uv | first |
        | 2024-03-01 00:01 | a    | 2  | 2  | ann   |
        | 2024-03-01 00:02 | a    | 2  | 2  | ann   |
        | 2024-03-01 00:03 | a    | 1  | 1  | bob   |

    Scenario: An update changes the total of its pane
      When an epoch of views brings
        | kind | at                  | page | visitor |
        | +I   | 2024-03-01 00:00:10 | a    | ann     |
        | -U   | 2024-03-01 00:00:10 | a    | ann     |
        | +U   | 2024-03-01 00:00:10 | b    | ann     |
        | +I   | 2024-03-01 00:02:00 | b    | ann     |
      Then page_views.ticks_page shows exactly
        | tick             | page | pv | uv | first |
        | 2024-03-01 00:01 | a    | 0  | 0  |       |
        | 2024-03-01 00:01 | b    | 1  | 1  | ann   |

  Rule: A day is a day of the local clock

    Background:
      Given the setting pipelines.page_views.time_zone = "Europe/Berlin"
      And the setting pipelines.page_views.step = "6h"
      And the setting pipelines.page_views.ticks = "dense"

    Scenario: A day of 23 hours
      When an epoch of views brings
        | at               | page |
        | 2024-03-30 23:00 | a    |
        | 2024-03-31 22:00 | a    |
      Then page_views.ticks_total shows exactly
        | window_start     | tick             | pv |
        | 2024-03-30 23:00 | 2024-03-31 05:00 | 1  |
        | 2024-03-30 23:00 | 2024-03-31 11:00 | 1  |
        | 2024-03-30 23:00 | 2024-03-31 17:00 | 1  |
        | 2024-03-30 23:00 | 2024-03-31 22:00 | 1  |

    Scenario: A day of 25 hours
      When an epoch of views brings
        | at               | page |
        | 2024-10-26 22:00 | a    |
        | 2024-10-27 22:30 | a    |
        | 2024-10-27 23:00 | a    |
      Then page_views.ticks_total shows exactly
        | window_start     | tick             | pv |
        | 2024-10-26 22:00 | 2024-10-27 04:00 | 1  |
        | 2024-10-26 22:00 | 2024-10-27 10:00 | 1  |
        | 2024-10-26 22:00 | 2024-10-27 16:00 | 1  |
        | 2024-10-26 22:00 | 2024-10-27 22:00 | 1  |
        | 2024-10-26 22:00 | 2024-10-27 23:00 | 2  |

    Scenario: A window that starts in an hour which the clock shows twice has the rows between its start and end
      Given the setting pipelines.page_views.offset = "2h30m"
      And the setting pipelines.page_views.step = "1d"
      When an epoch of views brings
        | at               | page |
        | 2024-10-27 00:10 | a    |
        | 2024-10-27 00:40 | a    |
        | 2024-10-27 01:10 | a    |
        | 2024-10-27 01:40 | a    |
        | 2024-10-28 01:30 | a    |
      Then page_views.ticks_total shows exactly
        | window_start     | tick             | pv | revision |
        | 2024-10-26 00:30 | 2024-10-27 00:30 | 1  | 0        |
        | 2024-10-27 00:30 | 2024-10-28 01:30 | 3  | 0        |

    Scenario: A day that a zone skipped has no window
      Given the setting pipelines.page_views.time_zone = "Pacific/Apia"
      And the setting pipelines.page_views.step = "1d"
      And the setting pipelines.page_views.size = "7d"
      When an epoch of views brings
        | at               | page |
        | 2011-12-29 10:30 | a    |
        | 2011-12-30 10:30 | a    |
        | 2012-01-05 10:30 | a    |
      Then page_views.ticks_total shows exactly
        | window_start     | tick             | pv |
        | 2011-12-29 10:00 | 2011-12-30 10:00 | 1  |
        | 2011-12-29 10:00 | 2011-12-31 10:00 | 2  |
        | 2011-12-29 10:00 | 2012-01-01 10:00 | 2  |
        | 2011-12-29 10:00 | 2012-01-02 10:00 | 2  |
        | 2011-12-29 10:00 | 2012-01-03 10:00 | 2  |
        | 2011-12-29 10:00 | 2012-01-04 10:00 | 2  |
