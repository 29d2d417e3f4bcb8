Feature: Loading a history in bulk, before the stream takes over
  Years of a topic are in a plain table. They are loaded in bulk, and the stream continues from a position that was
  recorded before the load. No row is missing, and no row counts twice.

  Background:
    Given the deployment bootstrap.toml
    And a file of the history of info
      | shop_id | name  | updated_at       |
      | 1       | North | 2024-03-01 09:00 |
      | 2       | South | 2024-03-01 09:00 |
    And a file of the history of info
      | shop_id | name     | updated_at       |
      | 2       | South 0  | 2024-02-01 09:00 |
      | 1       | North II | 2024-03-02 09:00 |
    And a file of the history of stock
      | shop_id | items | seq |
      | 1       | 7     | 1   |
      | 1       | 9     | 3   |
      | 3       | 5     | 2   |

  @core
  Scenario: The stream overlaps the history and continues after it
    Given these rows arrive at info
      | kind | shop_id | name  | updated_at       |
      | +I   | 1       | North | 2024-03-01 09:00 |
    And these rows arrive at stock
      | shop_id | items | seq |
      | 1       | 9     | 3   |
      | 1       | 8     | 2   |
    When the history of shop is loaded
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 9          |
      | 2       | South    |            |
      | 3       |          | 5          |
    When these rows arrive at info
      | kind | shop_id | name      | updated_at       |
      | +U   | 2       | South II  | 2024-03-03 09:00 |
      | -D   | 1       |           | 2024-03-03 09:00 |
      | +I   | 4       | East      | 2024-03-03 09:00 |
    And shop runs until idle
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 2       | South II |            |
      | 3       |          | 5          |
      | 4       | East     |            |

  @core @lake @faults
  Scenario Outline: A load that was interrupted is resumed
    When loading the history of shop crashes after commit <commit>
    And the history of shop is loaded
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 9          |
      | 2       | South    |            |
      | 3       |          | 5          |
    When an epoch of stock brings
      | shop_id | items | seq |
      | 3       | 6     | 3   |
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 9          |
      | 2       | South    |            |
      | 3       |          | 6          |
    And loading the history of shop fails with ConfigError: has been run already, to epoch 2

    Examples:
      | commit |
      | 1      |
      | 2      |
      | 3      |
      | 4      |

  Scenario: A load becomes visible as a whole, and the stream waits for it
    When loading the history of shop crashes after commit 1
    Then shop.rows shows nothing
    And running shop fails with ConfigError: is being loaded
    And rebuilding shop fails with ConfigError: is being loaded
    When the history of shop is loaded
    Then shop.completeness shows exactly
      | shop_id | info_reported | info_epoch | stock_reported | stock_epoch |
      | 1       | true          | 1          | true           | 0           |
      | 2       | true          | 0          | false          |             |
      | 3       | false         |            | true           | 0           |

  Scenario: The stream takes over at its position at the start of the load
    Given these rows arrive at stock
      | shop_id | items | seq |
      | 1       | 1     | 9   |
    When the history of shop is loaded, its stream from now
    And an epoch of stock brings
      | shop_id | items | seq |
      | 3       | 6     | 3   |
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 9          |
      | 2       | South    |            |
      | 3       |          | 6          |

  Scenario: A row of the history that cannot be used is a dead letter
    Given a file of the history of stock
      | shop_id | items | seq |
      | 4       | many  | 1   |
      |         | 1     | 1   |
      | 5       | 1     |     |
      | 6       | 1     | 1   |
    When the history of shop is loaded
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 9          |
      | 2       | South    |            |
      | 3       |          | 5          |
      | 6       |          | 1          |
    And the dead letters of shop are exactly
      | epoch | reason                                                                     | format |
      | 1     | column 'items': int wanted, not 'many'                                     | json   |
      | 1     | key column shop_id is null                                                 | json   |
      | 1     | sequence (seq) has only nulls: it is unknown whether it is newer           | json   |

  Scenario: A pipeline that has already run cannot load a history
    When an epoch of stock brings
      | shop_id | items | seq |
      | 3       | 6     | 3   |
    Then loading the history of shop fails with ConfigError: has been run already


  Scenario: Compaction runs next to the stream
    Given the history of shop is loaded
    When these rows arrive at stock
      | shop_id | items | seq |
      | 1       | 1     | 4   |
      | 2       | 2     | 1   |
    And these rows arrive at stock
      | shop_id | items | seq |
      | 1       | 2     | 5   |
      | 3       | 1     | 1   |
    And these rows arrive at stock
      | shop_id | items | seq |
      | 1       | 3     | 6   |
    And shop runs until idle while its tables are compacted beside it
    Then shop.rows shows exactly
      | shop_id | name     | item_count |
      | 1       | North II | 3          |
      | 2       | South    | 2          |
      | 3       |          | 5          |
    And shop has published 4 epochs

  @core
  Scenario: A rebuild reads no history, so it is refused
    Given the history of shop is loaded
    And the setting pipelines.shop.topics.stock.select = { item_count = "items + 1" }
    Then rebuilding shop fails with ConfigError: loaded with `headwater bootstrap`
