Feature: Sums are exact, or fail with an error
  Amounts may be as large as their types allow. A sum that overflows only on the way is still exact. A sum that does not
  fit stops the run, with an error that names the measure, the group and the remedy. No sum ever wraps around or becomes
  0 or null.

  Background:
    Given the deployment sums.toml

  @core
  Scenario: An overflow that later changes undo has no effect
    When these rows arrive at entries
      | kind | id | account | whole               | wide                                    | at                  |
      | +I   | 1  | a       | 9223372036854775807 | 999999999999999999999999999999999999.99 | 2024-03-01 09:00:01 |
      | +I   | 2  | a       | 9223372036854775807 | 999999999999999999999999999999999999.99 | 2024-03-01 09:00:02 |
      | +I   | 3  | b       | 1                   | 0.01                                    | 2024-03-01 09:00:03 |
      | -D   | 2  | a       | 9223372036854775807 | 999999999999999999999999999999999999.99 | 2024-03-01 09:00:04 |
    And all pipelines run until idle
    And these rows arrive at entries
      | kind | id | account | whole               | wide                                    | at                  |
      | -D   | 1  | a       | 9223372036854775807 | 999999999999999999999999999999999999.99 | 2024-03-01 09:01:00 |
      | +I   | 4  | a       | 5                   | 5.00                                    | 2024-03-01 09:01:01 |
      | +I   | 9  | end     | 0                   | 0.00                                    | 2024-03-01 09:02:00 |
    And all pipelines run until idle
    Then balances.totals shows exactly
      | account | entries | whole | mean | wide |
      | a       | 1       | 5     | 5.0  | 5.00 |
      | b       | 1       | 1     | 1.0  | 0.01 |
      | end     | 1       | 0     | 0.0  | 0.00 |
    And curve.ticks shows exactly
      | account | tick                | whole               | wide                                    |
      | a       | 2024-03-01 09:01:00 | 9223372036854775807 | 999999999999999999999999999999999999.99 |
      | b       | 2024-03-01 09:01:00 | 1                   | 0.01                                    |
      | a       | 2024-03-01 09:02:00 | 5                   | 5.00                                    |
    And sums.rows shows exactly
      | account | whole | mean | wide |
      | a       | 5     | 5.0  | 5.00 |
      | b       | 1     | 1.0  | 0.01 |
      | end     | 0     | 0.0  | 0.00 |

  Scenario: A sum of whole numbers that does not fit stops the run, and nothing is published
    When these rows arrive at entries
      | kind | id | account | whole               | wide | at                  |
      | +I   | 1  | a       | 9223372036854775807 | 1.00 | 2024-03-01 09:00:01 |
      | +I   | 9  | end     | 0                   | 0.00 | 2024-03-01 09:00:02 |
    And all pipelines run until idle
    And these rows arrive at entries
      | kind | id | account | whole               | wide | at                  |
      | +I   | 2  | b       | 9223372036854775807 | 1.00 | 2024-03-01 09:00:03 |
      | +I   | 3  | b       | 1                   | 1.00 | 2024-03-01 09:00:04 |
      | +I   | 8  | end     | 0                   | 0.00 | 2024-03-01 09:02:00 |
    Then running balances fails with SumOverflow: measure 'whole': the sum of group \(account = b\) does not fit into bigint
    And balances.totals shows exactly
      | account | entries | whole               | wide |
      | a       | 1       | 9223372036854775807 | 1.00 |
      | end     | 1       | 0                   | 0.00 |
    And running curve fails with SumOverflow: measure 'whole': the sum of group \(.*\) does not fit into bigint
    And curve.ticks shows nothing
    When stored runs until idle
    Then running sums fails with SumOverflow: whole.*does not fit
    And sums.rows shows exactly
      | account | whole               | wide |
      | a       | 9223372036854775807 | 1.00 |
      | end     | 0                   | 0.00 |

  Scenario: A sum of decimals that does not fit stops the run
    When these rows arrive at entries
      | kind | id | account | whole | wide                                    | at                  |
      | +I   | 1  | a       | 1     | 999999999999999999999999999999999999.99 | 2024-03-01 09:00:01 |
      | +I   | 2  | a       | 1     | 0.01                                    | 2024-03-01 09:00:02 |
      | +I   | 8  | end     | 0     | 0.00                                    | 2024-03-01 09:02:00 |
    Then running balances fails with SumOverflow: measure 'wide': the sum of group \(account = a\) does not fit into decimal\(38,2\)
    And running curve fails with SumOverflow: measure 'wide': the sum of group \(.*\) does not fit into decimal\(38,2\)
    When stored runs until idle
    Then running sums fails with SumOverflow: does not fit

  Scenario: If the sums of several days fit only separately, reading their total fails
    When these rows arrive at entries
      | kind | id | account | whole               | wide | at                  |
      | +I   | 1  | a       | 9223372036854775807 | 1.00 | 2024-03-01 09:00:01 |
      | +I   | 2  | a       | 9223372036854775807 | 1.00 | 2024-03-02 09:00:01 |
    And balances runs until idle
    Then asking balances.totals fails with SumOverflow: measure 'whole': the sum of group \(account = a\)
    When these rows arrive at entries
      | kind | id | account | whole               | wide | at                  |
      | -D   | 1  | a       | 9223372036854775807 | 1.00 | 2024-03-03 09:00:01 |
    And balances runs until idle
    Then balances.totals shows exactly
      | account | entries | whole               | wide |
      | a       | 1       | 9223372036854775807 | 1.00 |
