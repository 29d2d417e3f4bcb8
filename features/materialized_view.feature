Feature: A SQL result over merged tables is kept fresh, and never shows a mixed state
  The user writes a batch query and names the key of its rows. An epoch recomputes the keys that a change may have
  affected, and no others. All inputs are read as of one time, which the slowest of them has reached: a source that lags
  makes the answer older, not wrong.

  Rule: An epoch computes the affected keys only, and makes one net change per key

    Background:
      Given the deployment order_lines.toml
      And these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | +I   | 1           | ann  | 2024-03-01 09:00 |
        | +I   | 2           | bob  | 2024-03-01 09:00 |
        | +I   | 99          | end  | 2024-03-01 09:05 |
      And these rows arrive at product_log
        | kind | product_id | price | at               |
        | +I   | 7          | 2.50  | 2024-03-01 09:00 |
        | +I   | 8          | 10.00 | 2024-03-01 09:00 |
        | +I   | 99         | 0.00  | 2024-03-01 09:05 |
      And these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 100      | 1           | 7          | 2      | 2024-03-01 09:01 |
        | +I   | 101      | 1           | 8          | 1      | 2024-03-01 09:02 |
        | +I   | 102      | 2           | 7          | 4      | 2024-03-01 09:03 |
        | +I   | 999      | 0           | 0          | 0      | 2024-03-01 09:05 |
      And all pipelines run until idle

    @core
    Scenario: A join of three tables
      Then order_lines.rows shows exactly
        | order_id | name | pieces | worth |
        | 100      | ann  | 2      | 5.00  |
        | 101      | ann  | 1      | 10.00 |
        | 102      | bob  | 4      | 10.00 |

    Scenario: A change of one product changes each line of its orders once, and no other line
      When these rows arrive at product_log
        | kind | product_id | price | at               |
        | -U   | 7          | 2.50  | 2024-03-01 09:10 |
        | +U   | 7          | 3.00  | 2024-03-01 09:10 |
        | -U   | 7          | 3.00  | 2024-03-01 09:11 |
        | +U   | 7          | 4.00  | 2024-03-01 09:11 |
        | -U   | 99         | 0.00  | 2024-03-01 09:20 |
        | +U   | 99         | 0.01  | 2024-03-01 09:20 |
      And these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | +I   | 98          | end  | 2024-03-01 09:20 |
      And these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 998      | 0           | 0          | 0      | 2024-03-01 09:20 |
      And all pipelines run until idle
      Then order_lines.rows differs since epoch 0 by exactly
        | _row_kind | order_id | name | worth |
        | -U        | 100      | ann  | 5.00  |
        | +U        | 100      | ann  | 8.00  |
        | -U        | 102      | bob  | 10.00 |
        | +U        | 102      | bob  | 16.00 |

    Scenario: An order that gets another customer, an order that is deleted, and a customer that is deleted
      When these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | -U   | 101      | 1           | 8          | 1      | 2024-03-01 09:10 |
        | +U   | 101      | 2           | 8          | 1      | 2024-03-01 09:10 |
        | -D   | 102      | 2           | 7          | 4      | 2024-03-01 09:11 |
        | +I   | 998      | 0           | 0          | 0      | 2024-03-01 09:20 |
      And these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | -D   | 1           | ann  | 2024-03-01 09:12 |
        | +I   | 98          | end  | 2024-03-01 09:20 |
      And these rows arrive at product_log
        | kind | product_id | price | at               |
        | +I   | 98         | 0.00  | 2024-03-01 09:20 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | worth |
        | 101      | bob  | 10.00 |
      And customer_worth.rows shows exactly
        | name | orders | worth |
        | bob  | 1      | 10.00 |

    Scenario: A join may compare whole numbers of two types
      Given the setting pipelines.narrow.service = "materialized_view"
      And the setting pipelines.narrow.inputs = { l = "order_lines.rows", o = "orders.rows" }
      And the setting pipelines.narrow.key = ["order_id"]
      And the setting pipelines.narrow.sql = "SELECT o.order_id, l.name FROM o JOIN l ON o.pieces = l.order_id - 98"
      And all pipelines run until idle
      Then narrow.rows shows exactly
        | order_id | name |
        | 100      | ann  |
        | 102      | bob  |

    Scenario: A view over a view
      Then customer_worth.rows shows exactly
        | name | orders | worth |
        | ann  | 2      | 15.00 |
        | bob  | 1      | 10.00 |

    Scenario: A source that lags makes the answer older
      When these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 103      | 2           | 8          | 3      | 2024-03-01 10:00 |
        | +I   | 998      | 0           | 0          | 0      | 2024-03-01 11:00 |
      And these rows arrive at product_log
        | kind | product_id | price | at               |
        | -U   | 8          | 10.00 | 2024-03-01 10:00 |
        | +U   | 8          | 11.00 | 2024-03-01 10:00 |
        | +I   | 98         | 0.00  | 2024-03-01 11:00 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | pieces | worth |
        | 100      | ann  | 2      | 5.00  |
        | 101      | ann  | 1      | 10.00 |
        | 102      | bob  | 4      | 10.00 |
      When these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | +I   | 98          | end  | 2024-03-01 11:00 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | pieces | worth |
        | 100      | ann  | 2      | 5.00  |
        | 101      | ann  | 1      | 11.00 |
        | 102      | bob  | 4      | 10.00 |
        | 103      | bob  | 3      | 33.00 |

    Scenario: An order that is inserted and deleted within one epoch is shown at the moments between, while a source lags
      When these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 103      | 2           | 8          | 3      | 2024-03-01 10:00 |
        | -D   | 103      | 2           | 8          | 3      | 2024-03-01 10:30 |
        | +I   | 998      | 0           | 0          | 0      | 2024-03-01 11:00 |
      And these rows arrive at product_log
        | kind | product_id | price | at               |
        | +I   | 98         | 0.00  | 2024-03-01 11:00 |
      And these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | +I   | 98          | end  | 2024-03-01 10:10 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | worth |
        | 100      | ann  | 5.00  |
        | 101      | ann  | 10.00 |
        | 102      | bob  | 10.00 |
        | 103      | bob  | 30.00 |
      When these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | -U   | 98          | end  | 2024-03-01 10:40 |
        | +U   | 98          | the  | 2024-03-01 10:40 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | worth |
        | 100      | ann  | 5.00  |
        | 101      | ann  | 10.00 |
        | 102      | bob  | 10.00 |

    Scenario: An order that arrives late for the moment shown, and is deleted within the same epoch
      When these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 103      | 2           | 8          | 3      | 2024-03-01 09:04 |
        | -D   | 103      | 2           | 8          | 3      | 2024-03-01 10:30 |
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | worth |
        | 100      | ann  | 5.00  |
        | 101      | ann  | 10.00 |
        | 102      | bob  | 10.00 |
        | 103      | bob  | 30.00 |

    Scenario Outline: A run that dies leaves no half result
      When these rows arrive at product_log
        | kind | product_id | price | at               |
        | -U   | 7          | 2.50  | 2024-03-01 09:10 |
        | +U   | 7          | 3.00  | 2024-03-01 09:10 |
        | +I   | 98         | 0.00  | 2024-03-01 09:20 |
      And these rows arrive at customer_log
        | kind | customer_id | name | at               |
        | +I   | 98          | end  | 2024-03-01 09:20 |
      And these rows arrive at order_log
        | kind | order_id | customer_id | product_id | pieces | at               |
        | +I   | 998      | 0           | 0          | 0      | 2024-03-01 09:20 |
      And orders runs until idle
      And customers runs until idle
      And products runs until idle
      And order_lines crashes <moment>
      And all pipelines run until idle
      Then order_lines.rows shows exactly
        | order_id | name | worth |
        | 100      | ann  | 6.00  |
        | 101      | ann  | 10.00 |
        | 102      | bob  | 12.00 |
      And customer_worth.rows shows exactly
        | name | orders | worth |
        | ann  | 2      | 16.00 |
        | bob  | 1      | 12.00 |

      Examples:
        | moment                  |
        | before the first commit |
        | after the first commit  |
        | before the publication  |
        | after the publication   |

  Rule: Money that moves between two databases is never seen twice, and never missed

    Background:
      Given the deployment bank.toml
      And a chunk of checking
        | account | branch | balance | pos |
        | 1       | north  | 100     | 10  |
        | 2       | north  | 100     | 10  |
      And a chunk of saving
        | account | branch | balance | pos |
        | 1       | north  | 100     | 10  |
      And these lines arrive at checking_log
        """
        {"database":"bank","table":"checking","type":"update","ts":1709283600,"xid":1,"commit":true,"position":"binlog.000001:20","data":{"account":2,"branch":"north","balance":90},"old":{"balance":100}}
        {"database":"bank","table":"checking","type":"update","ts":1709283610,"xid":3,"commit":true,"position":"binlog.000001:40","data":{"account":2,"branch":"north","balance":80},"old":{"balance":90}}
        {"database":"bank","table":"checking","type":"update","ts":1709283620,"xid":4,"commit":true,"position":"binlog.000001:50","data":{"account":2,"branch":"north","balance":90},"old":{"balance":80}}
        """
      And these lines arrive at saving_log
        """
        {"database":"bank","table":"saving","type":"update","ts":1709283600,"xid":1,"commit":true,"position":"binlog.000001:20","data":{"account":1,"branch":"north","balance":110},"old":{"balance":100}}
        {"database":"bank","table":"saving","type":"update","ts":1709283610,"xid":3,"commit":true,"position":"binlog.000001:40","data":{"account":1,"branch":"north","balance":120},"old":{"balance":110}}
        {"database":"bank","table":"saving","type":"update","ts":1709283620,"xid":4,"commit":true,"position":"binlog.000001:50","data":{"account":1,"branch":"north","balance":110},"old":{"balance":120}}
        """

    Scenario: One of the databases is two hours behind
      When all pipelines run until idle
      Then owed.rows shows exactly
        | branch | total |
        | north  | 300   |
      When these lines arrive at checking_log
        """
        {"database":"bank","table":"checking","type":"update","ts":1709287200,"xid":8,"commit":true,"position":"binlog.000001:80","data":{"account":1,"branch":"north","balance":40},"old":{"balance":100}}
        {"database":"bank","table":"checking","type":"update","ts":1709290820,"xid":9,"commit":true,"position":"binlog.000001:90","data":{"account":1,"branch":"north","balance":30},"old":{"balance":40}}
        """
      And all pipelines run until idle
      Then owed.rows shows exactly
        | branch | total |
        | north  | 300   |
      And checking.rows shows exactly
        | account | balance |
        | 1       | 30      |
        | 2       | 90      |
      When these lines arrive at saving_log
        """
        {"database":"bank","table":"saving","type":"update","ts":1709287200,"xid":8,"commit":true,"position":"binlog.000001:80","data":{"account":1,"branch":"north","balance":170},"old":{"balance":110}}
        {"database":"bank","table":"saving","type":"update","ts":1709290820,"xid":9,"commit":true,"position":"binlog.000001:90","data":{"account":1,"branch":"north","balance":180},"old":{"balance":170}}
        """
      And all pipelines run until idle
      Then owed.rows shows exactly
        | branch | total |
        | north  | 300   |

  Rule: A query whose result is not a function of the rows of its key is refused, with the reason

    Background:
      Given the deployment order_lines.toml

    Scenario: Only some of the rows
      Given the setting pipelines.order_lines.sql = "SELECT order_id, pieces FROM o ORDER BY pieces LIMIT 10"
      And the setting pipelines.order_lines.inputs = { o = "orders.rows" }
      Then order_lines cannot run: LIMIT

    Scenario: A rank over rows of other keys
      Given the setting pipelines.order_lines.sql = "SELECT order_id, pieces, row_number() OVER (ORDER BY pieces, order_id) AS place FROM o"
      And the setting pipelines.order_lines.inputs = { o = "orders.rows" }
      Then order_lines cannot run: PARTITION BY

    Scenario Outline: A column with the name of one that is added to the view's rows: <name>
      Given the setting pipelines.order_lines.sql = "SELECT order_id, pieces AS <name> FROM o"
      And the setting pipelines.order_lines.inputs = { o = "orders.rows" }
      Then order_lines cannot run: column '<name>' has the name of one that Headwater adds

      Examples:
        | name      |
        | _op       |
        | _row_kind |

    Scenario: A declared type that cannot hold the values of the query
      Given the setting pipelines.order_lines.sql = "SELECT order_id, pieces / 2 AS half FROM o"
      And the setting pipelines.order_lines.inputs = { o = "orders.rows" }
      And the setting pipelines.order_lines.schema = "order_id bigint, half int"
      Then order_lines cannot run: schema: column 'half' is declared as int, and the query returns double

    Scenario: A different answer each time
      Given the setting pipelines.order_lines.sql = "SELECT order_id, rand() AS luck FROM o"
      And the setting pipelines.order_lines.inputs = { o = "orders.rows" }
      Then order_lines cannot run: rand
