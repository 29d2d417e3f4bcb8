Feature: Changelog retraction
  How many orders are in each state, over all history, now, when each record of the binlog is seen once?
  Each change subtracts its old image and adds its new one, so only the sums have to be stored.

  Background:
    Given the deployment orders.toml

  @core @lake
  Scenario: An order of yesterday changes today
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":1,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-01 10:00:00"}}
      """
    And all pipelines run until idle
    And order_states is cut at 2024-03-02
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":"2024-03-02 08:00:00"},"old":{"state":"new","mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      | new   | 1      | 2.25   | 1      |
      | paid  | 1      | 10.50  | 1      |
    And order_states.deltas shows exactly
      | day        | state | orders | amount |
      | 2024-03-02 | new   | -1     | -10.50 |
      | 2024-03-02 | paid  | 1      | 10.50  |

  Scenario: An order changes from one state to another and back
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"held","amount":10.50,"mtime":"2024-03-01 09:30:00"},"old":{"state":"new"}}
      """
    And all pipelines run until idle
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:300","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 10:00:00"},"old":{"state":"held"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      | new   | 1      | 10.50  | 1      |

  Scenario: Maxwell goes back by days, and sends changes again
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000099:900","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000100:100","xoffset":0,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-05 09:00:00"}}
      """
    And all pipelines run until idle
    And order_states is cut at 2024-03-05
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000099:900","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000100:100","xoffset":0,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-05 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000100:100","xoffset":1,"data":{"order_id":3,"user_id":8,"state":"new","amount":1.00,"mtime":"2024-03-05 09:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      | new   | 3      | 13.75  | 2      |

  Scenario: A record of a day that is already in the past counts immediately, and does not change today
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    And order_states is cut at 2024-03-03
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-02 09:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      | new   | 2      | 12.75  | 2      |
    And order_states.deltas shows exactly
      | day | state | orders | amount |

  Scenario: A day is cut at midnight in Shanghai
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 23:59:59"}}
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":"2024-03-02 00:00:00"},"old":{"state":"new","mtime":"2024-03-01 23:59:59"}}
      """
    And all pipelines run until idle
    Then order_states.by_day shows exactly
      | day        | state | orders | amount | buyers |
      | 2024-03-01 | new   | 1      | 10.50  | 1      |
      | 2024-03-02 | new   | 0      |        | 0      |
      | 2024-03-02 | paid  | 1      | 10.50  | 1      |
    When order_states is cut at 2024-03-02
    Then order_states.by_day shows exactly
      | day        | state | orders | amount | buyers |
      | 2024-03-02 | new   | 0      |        | 0      |
      | 2024-03-02 | paid  | 1      | 10.50  | 1      |

  Scenario: A group may be null, and a sum over nothing is null
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":null,"amount":null,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":2,"user_id":7,"state":"","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:300","xoffset":0,"data":{"order_id":3,"user_id":7,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:400","xoffset":0,"data":{"order_id":2,"user_id":7,"state":"","amount":null,"mtime":"2024-03-01 10:00:00"},"old":{"amount":1.00}}
      {"database":"shop","table":"orders","type":"delete","ts":1,"position":"bin.000001:500","xoffset":0,"data":{"order_id":3,"user_id":7,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      |       | 1      |        | 1      |
      | ""    | 1      |        | 1      |

  Scenario: A null group stops a view that is stored as a table, which has no row for it
    Given the setting pipelines.order_states.materialize = ["totals"]
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":2,"user_id":7,"state":null,"amount":2.00,"mtime":"2024-03-01 09:00:00"}}
      """
    Then running order_states fails with BadInput: key \(state\) is null in some rows
    And the table order_states.totals holds exactly
      | state | orders | amount | buyers |
      | new   | 1      | 1.00   | 1      |

  Scenario: Work that a crash left unfinished is counted once
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      """
    And order_states crashes after the first commit
    And these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-01 09:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
      | new   | 2      | 12.75  | 2      |

  Scenario: A record without a day or a position becomes a dead letter with the reason
    Given the setting sources.orders.schema = "order_id bigint, user_id bigint, state string, amount decimal(18,2), mtime timestamp, file string, at bigint, line bigint"
    And the setting sources.orders.metadata = { file = "log_file", at = "log_position", line = "row" }
    And the setting pipelines.order_states.identity = ["file", "at", "line"]
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":null},"old":{"state":"new"}}
      {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:300","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":"2024-03-01 09:00:00"},"old":null}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | orders | amount | buyers |
    And order_states.dead_letters shows exactly
      | epoch | reason                                                |
      | 0     | identity column line is null or has no number at its end |
      | 0     | column mtime is null, so it has no day                |
      | 0     | column mtime is null, so it has no day                |
      | 0     | old: a JSON object wanted, not null                   |

  Scenario: A measure may have the name of the day column
    Given the setting pipelines.order_states.measures = { day = "count(*)", buyers = "count(distinct user_id)" }
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":1,"data":{"order_id":2,"user_id":8,"state":"new","amount":2.25,"mtime":"2024-03-03 10:00:00"}}
      """
    And all pipelines run until idle
    Then order_states.totals shows exactly
      | state | day | buyers |
      | new   | 2   | 2      |
    And order_states.deltas shows exactly
      | _day       | state | day |
      | 2024-03-01 | new   | 1   |
      | 2024-03-03 | new   | 1   |
    And order_states.by_day shows exactly
      | _day       | state | day | buyers |
      | 2024-03-01 | new   | 1   | 1      |
      | 2024-03-03 | new   | 2   | 2      |

  Rule: Messages have a position in a log, so that a message that is sent again counts once

    @core
    Scenario: A producer sends changes again, within an epoch and across epochs
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280060,"position":"bin.000009:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"update","ts":1709280090,"position":"bin.000009:300","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"paid","amount":1.00,"mtime":"2024-03-01 09:00:00"},"old":{"state":"new"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280060,"position":"bin.000009:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"update","ts":1709280090,"position":"bin.000009:300","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"paid","amount":1.00,"mtime":"2024-03-01 09:00:00"},"old":{"state":"new"}}
        """
      And all pipelines run until idle
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280060,"position":"bin.000009:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"update","ts":1709280090,"position":"bin.000009:300","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"paid","amount":1.00,"mtime":"2024-03-01 09:00:00"},"old":{"state":"new"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280120,"position":"bin.000010:100","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 2      | 2.00   | 2      |
        | paid  | 1      | 1.00   | 1      |
      And order_states has skipped 6 repeats

    Scenario: A change that arrives after a later one does not count, wherever epochs end
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:300","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:200","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:300","xoffset":0,"data":{"order_id":4,"user_id":4,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 2      | 2.00   | 2      |
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:250","xoffset":0,"data":{"order_id":5,"user_id":5,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 2      | 2.00   | 2      |
      And order_states has skipped 3 repeats

    Scenario: Another server takes over, and its log counts from its beginning
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"server_id":1,"position":"bin.000900:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"server_id":1,"position":"bin.000900:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"server_id":2,"position":"bin.000003:100","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280001,"server_id":2,"position":"bin.000003:200","xoffset":0,"data":{"order_id":4,"user_id":4,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"server_id":2,"position":"bin.000003:100","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 4      | 4.00   | 4      |
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"server_id":1,"position":"bin.000900:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280001,"server_id":2,"position":"bin.000003:200","xoffset":0,"data":{"order_id":4,"user_id":4,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 4      | 4.00   | 4      |
      And order_states has skipped 3 repeats

    @core
    Scenario: A server without a name takes over: the run stops until the user accepts a new log
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000900:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000900:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280060,"position":"bin.000003:100","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280120,"position":"bin.000003:200","xoffset":0,"data":{"order_id":4,"user_id":4,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280060,"position":"bin.000003:100","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      Then running order_states fails with BadInput: place of log 'bin' goes back to file 3, position 100, row 0 after file 900 was read.+log_reset = "accept"
      And order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 2      | 2.00   | 2      |
      When the setting pipelines.order_states.log_reset = "accept"
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 4      | 4.00   | 4      |
      When the setting pipelines.order_states.log_reset is taken out
      And these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280120,"position":"bin.000003:200","xoffset":0,"data":{"order_id":4,"user_id":4,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280180,"position":"bin.000003:300","xoffset":0,"data":{"order_id":5,"user_id":5,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 5      | 5.00   | 5      |
      And order_states has skipped 2 repeats

    Scenario: A connector goes back by hours: the run stops until the user allows such repeats
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709287200,"position":"bin.000009:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709287200,"position":"bin.000009:200","xoffset":0,"data":{"order_id":2,"user_id":2,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709287260,"position":"bin.000009:300","xoffset":0,"data":{"order_id":3,"user_id":3,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      Then running order_states fails with BadInput: A repeat may go back by 10m of commit time, and to the last 3 log files.+set repeat_window = "3h"
      And order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 2      | 2.00   | 2      |
      When the setting pipelines.order_states.repeat_window = "3h"
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 3      | 3.00   | 3      |

    Scenario: Repeats can be counted
      Given the setting pipelines.order_states.identity = "none"
      And these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709280000,"position":"bin.000009:100","xoffset":0,"data":{"order_id":1,"user_id":1,"state":"new","amount":1.00,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders | amount | buyers |
        | new   | 3      | 3.00   | 1      |

  Rule: The past may be a user-supplied batch table

    Background:
      Given the setting pipelines.order_states.measures = { orders = "count(*)" }
      And the setting pipelines.order_states.past = { sql = "SELECT state, cast(orders as bigint) AS orders FROM warehouse WHERE day = date_sub(:cut, 1)", tables = { warehouse = { path = "warehouse.csv", format = "csv" } }, holds = "totals" }
      And the file warehouse.csv
        """
        day,state,orders
        2024-03-01,new,5
        """

    Scenario: If batch and stream overlap, the stream's part of the past is left out
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
        {"database":"shop","table":"orders","type":"update","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":"2024-03-02 08:00:00"},"old":{"state":"new","mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      And order_states is cut at 2024-03-02
      Then order_states.totals shows exactly
        | state | orders |
        | new   | 4      |
        | paid  | 1      |

    @core
    Scenario: A rebuild makes the cut again, for the source has no row of that past
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"paid","amount":10.50,"mtime":"2024-03-02 08:00:00"}}
        """
      And all pipelines run until idle
      And order_states is cut at 2024-03-02
      And the setting pipelines.order_states.measures = { orders = "count(*)", buyers = "count(user_id)" }
      And the setting pipelines.order_states.past = { sql = "SELECT state, cast(orders as bigint) AS orders, 3L AS buyers FROM warehouse WHERE day = date_sub(:cut, 1)", tables = { warehouse = { path = "warehouse.csv", format = "csv" } }, holds = "totals" }
      And order_states is rebuilt
      Then order_states.totals shows exactly
        | state | orders | buyers |
        | new   | 5      | 3      |
        | paid  | 1      | 1      |

    Scenario: A late record never changes today, and counts when the batch has run again
      When these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-02 09:00:00"}}
        """
      And all pipelines run until idle
      And order_states is cut at 2024-03-02
      And these lines arrive at orders
        """
        {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:300","xoffset":0,"data":{"order_id":9,"user_id":7,"state":"new","amount":10.50,"mtime":"2024-03-01 09:00:00"}}
        """
      And all pipelines run until idle
      Then order_states.totals shows exactly
        | state | orders |
        | new   | 6      |
      When the file warehouse.csv is
        """
        day,state,orders
        2024-03-01,new,6
        """
      And order_states is cut at 2024-03-02
      Then order_states.totals shows exactly
        | state | orders |
        | new   | 7      |

  Scenario: A day ends once, even if the clock goes back over midnight
    Given the setting sources.orders.time_zone = "UTC"
    And the setting pipelines.order_states.time_zone = "America/St_Johns"
    When these lines arrive at orders
      """
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:100","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2010-11-07 02:30:30"}}
      {"database":"shop","table":"orders","type":"delete","ts":1,"position":"bin.000001:200","xoffset":0,"data":{"order_id":1,"user_id":7,"state":"new","amount":10.50,"mtime":"2010-11-07 03:00:00"}}
      {"database":"shop","table":"orders","type":"insert","ts":1,"position":"bin.000001:300","xoffset":0,"data":{"order_id":2,"user_id":7,"state":"new","amount":1.00,"mtime":"2010-11-07 02:29:59"}}
      """
    And all pipelines run until idle
    Then order_states.by_day shows exactly
      | day        | state | orders |
      | 2010-11-06 | new   | 1      |
