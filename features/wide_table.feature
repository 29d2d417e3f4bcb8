Feature: A wide table of which each topic has a part
  Topics share a key, and each has some of the columns. One row per key shows the newest values of each topic, without a
  join, whatever the order in which the topics came, and wherever the batches ended.

  Background:
    Given the deployment shops.toml

  @core @lake
  Scenario: Three topics send records of one shop in one batch, each out of order
    When these rows arrive at info
      | kind | shop_id | name     | city   | updated_at       |
      | +U   | 1       | North II | Oslo   | 2024-03-01 12:00 |
      | +I   | 1       | North    | Bergen | 2024-03-01 09:00 |
      | +I   | 2       | South    | Rome   | 2024-03-01 09:00 |
    And these rows arrive at stock
      | kind | shop_id | items | seq |
      | +U   | 1       | 7     | 3   |
      | +U   | 1       | 9     | 5   |
      | +U   | 1       | 8     | 4   |
      | +U   | 3       | 1     | 1   |
    And these rows arrive at score
      | shop_id | score | day        | run |
      | 1       | 4.5   | 2024-03-02 | 1   |
      | 1       | 4.1   | 2024-03-01 | 9   |
    And shop runs until idle
    Then shop.rows shows exactly
      | shop_id | name     | city | item_count | score |
      | 1       | North II | Oslo | 9          | 4.5   |
      | 2       | South    | Rome |            |       |
      | 3       |          |      | 1          |       |
    # Of two that come together one is older than what is kept, and one newer; of another shop, both are older.
    When these rows arrive at stock
      | kind | shop_id | items | seq |
      | +U   | 1       | 3     | 6   |
      | +U   | 1       | 2     | 4   |
    And these rows arrive at info
      | kind | shop_id | name    | city | updated_at       |
      | +U   | 1       | North 0 | Bonn | 2024-03-01 08:00 |
      | +U   | 1       | North 1 | Cork | 2024-03-01 11:59 |
    And shop runs until idle
    Then shop.rows shows exactly
      | shop_id | name     | city | item_count | score |
      | 1       | North II | Oslo | 3          | 4.5   |
      | 2       | South    | Rome |            |       |
      | 3       |          |      | 1          |       |

  Scenario: The row is the same wherever batches end
    When an epoch of stock brings
      | kind | shop_id | items | seq |
      | +U   | 1       | 9     | 5   |
    And an epoch of info brings
      | kind | shop_id | name     | city   | updated_at       |
      | +U   | 1       | North II | Oslo   | 2024-03-01 12:00 |
    And an epoch of stock brings
      | kind | shop_id | items | seq |
      | +U   | 1       | 7     | 3   |
      | +U   | 1       | 8     | 4   |
    And an epoch of score brings
      | shop_id | score | day        | run |
      | 1       | 4.5   | 2024-03-02 | 1   |
    And an epoch of info brings
      | kind | shop_id | name  | city   | updated_at       |
      | +I   | 1       | North | Bergen | 2024-03-01 09:00 |
    And an epoch of score brings
      | shop_id | score | day        | run |
      | 1       | 4.1   | 2024-03-01 | 9   |
    Then shop.rows shows exactly
      | shop_id | name     | city | item_count | score |
      | 1       | North II | Oslo | 9          | 4.5   |

  Rule: A topic's columns come from its record with the highest sequence

    Scenario: Of equal sequences the later arrival wins, in one batch and across batches
      When an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
        | +U   | 1       | 9     | 3   |
        | +U   | 2       | 7     | 3   |
      And an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 2       | 4     | 3   |
        | +U   | 2       | 5     | 3   |
        | +U   | 2       | 6     | 2   |
      Then shop.rows shows exactly
        | shop_id | item_count |
        | 1       | 9          |
        | 2       | 5          |

    Scenario: A record whose sequence has only nulls does not apply
      When these lines arrive at score
        """
        {"shop_id": 1, "score": 4.1, "day": "2024-03-01", "run": 1}
        {"shop_id": 1, "score": 4.9, "day": null, "run": null}
        {"shop_id": 2, "score": 4.9}
        """
      And shop runs until idle
      And these lines arrive at score
        """
        {"shop_id": 1, "score": 3.9, "day": null, "run": null}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | score |
        | 1       | 4.1   |

    Scenario: A sequence with some nulls is compared from left to right, nulls first
      When these lines arrive at score
        """
        {"shop_id": 1, "score": 1.1, "day": null, "run": 7}
        {"shop_id": 1, "score": 1.2, "day": null, "run": 8}
        {"shop_id": 2, "score": 2.1, "day": "2024-03-01", "run": null}
        {"shop_id": 2, "score": 2.2, "day": null, "run": 9}
        {"shop_id": 3, "score": 3.1, "day": "2024-03-01", "run": 1}
        {"shop_id": 3, "score": 3.2, "day": "2024-03-01", "run": null}
        {"shop_id": 4, "score": 4.1, "day": null, "run": 9}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | score |
        | 1       | 1.2   |
        | 2       | 2.1   |
        | 3       | 3.1   |
        | 4       | 4.1   |
      When these lines arrive at score
        """
        {"shop_id": 1, "score": 1.3, "day": null, "run": 8}
        {"shop_id": 2, "score": 2.3, "day": "2024-03-01", "run": 0}
        {"shop_id": 3, "score": 3.3, "day": null, "run": 5}
        {"shop_id": 4, "score": 4.2, "day": "1999-01-01", "run": null}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | score |
        | 1       | 1.3   |
        | 2       | 2.3   |
        | 3       | 3.1   |
        | 4       | 4.2   |

    Scenario: Texts that end in a number are compared by the number, other texts as text
      Given the setting sources.score.schema = "shop_id bigint, score decimal(3,1), file string"
      And the setting pipelines.shop.topics.score.sequence = ["file"]
      When these lines arrive at score
        """
        {"shop_id": 1, "score": 1.1, "file": "mysql-bin.999999"}
        {"shop_id": 1, "score": 1.2, "file": "mysql-bin.1000000"}
        {"shop_id": 2, "score": 2.1, "file": "10"}
        {"shop_id": 2, "score": 2.2, "file": "9"}
        {"shop_id": 3, "score": 3.1, "file": "2024-03-01T09:00:01"}
        {"shop_id": 3, "score": 3.2, "file": "2024-03-01T09:00:00.5"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | score |
        | 1       | 1.2   |
        | 2       | 2.1   |
        | 3       | 3.1   |
      When these lines arrive at score
        """
        {"shop_id": 1, "score": 1.3, "file": "mysql-bin.999999"}
        {"shop_id": 2, "score": 2.3, "file": "11"}
        {"shop_id": 3, "score": 3.3, "file": "2024-03-01T09:00:01.25"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | score |
        | 1       | 1.2   |
        | 2       | 2.3   |
        | 3       | 3.3   |

    Scenario: A topic that begins late fills its columns in existing rows
      Given an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      And an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 2       | South | Rome | 2024-03-05 09:00 |
      When an epoch of score brings
        | shop_id | score | day        | run |
        | 1       | 4.5   | 2020-01-01 | 1   |
        | 3       | 2.5   | 2020-01-01 | 1   |
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count | score |
        | 1       | North | Oslo |            | 4.5   |
        | 2       | South | Rome |            |       |
        | 3       |       |      |            | 2.5   |

  Rule: A delete is a record of its topic, and a delete of the owner hides the row

    @core
    Scenario: A row that the owner deletes is hidden until the owner sends it again, whatever the others send
      Given these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | +I   | 2       | South | Rome | 2024-03-01 09:00 |
      And these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
        | +U   | 2       | 5     | 3   |
      And shop runs until idle
      # An older update comes behind the delete, and does not bring the shop back.
      When these rows arrive at info
        | kind | shop_id | name    | city | updated_at       |
        | -D   | 1       | North   | Oslo | 2024-03-01 11:00 |
        | +U   | 1       | North I | Oslo | 2024-03-01 10:00 |
      And these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 8     | 4   |
        | -D   | 2       | 5     | 4   |
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count |
        | 2       | South | Rome |            |
      When these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 9     | 5   |
        | +U   | 2       | 6     | 3   |
      And these rows arrive at info
        | kind | shop_id | name     | city   | updated_at       |
        | +I   | 1       | North II | Bergen | 2024-03-01 12:00 |
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | city   | item_count |
        | 1       | North II | Bergen | 9          |
        | 2       | South    | Rome   |            |

    Scenario: A shop that its owner deleted before any other topic sent it stays hidden
      When an epoch of info brings
        | kind | shop_id | name | city | updated_at       |
        | -D   | 1       |      |      | 2024-03-01 11:00 |
      And an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 8     | 4   |
      Then shop.rows shows nothing
      When an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 10:00 |
      Then shop.rows shows nothing

    Scenario: Another topic's delete empties its own columns, and an older record does not fill them again
      Given an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      And an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
      When an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 8     | 4   |
        | -D   | 1       |       | 5   |
      And an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 9     | 4   |
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count |
        | 1       | North | Oslo |            |
      When an epoch of stock brings
        | kind | shop_id | items | seq |
        | +I   | 1       | 2     | 6   |
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count |
        | 1       | North | Oslo | 2          |

    Scenario: A deleted row expires after `tombstones`, with the values of all topics
      Given the setting sources.info.event_time = "updated_at"
      And the setting pipelines.shop.tombstones = "2d"
      And these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
      And an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | -D   | 1       | North | Oslo | 2024-03-01 10:00 |
      When an epoch of info brings
        | kind | shop_id | name  | city | updated_at          |
        | +U   | 1       | North | Oslo | 2024-03-01 09:30    |
        | +I   | 2       | South | Rome | 2024-03-03 23:59:59 |
      Then shop.completeness shows exactly
        | shop_id | present | info_deleted | stock_seq |
        | 1       | false   | true         | 3         |
        | 2       | true    | false        |           |
      When an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +U   | 2       | South | Bari | 2024-03-04 00:00 |
      Then shop.completeness shows exactly
        | shop_id | present | info_deleted | stock_seq |
        | 2       | true    | false        |           |
      When an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 5     | 2   |
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count |
        | 1       |       |      | 5          |
        | 2       | South | Bari |            |

  Rule: Adding a column or a topic takes one edit and a restart

    Scenario: A column and a topic are added, and existing rows stay as they are
      Given these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | +I   | 2       | South | Rome | 2024-03-01 09:00 |
      And these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 2       | 5     | 3   |
      And shop runs until idle
      When the setting sources.info.schema = "kind string, shop_id bigint, name string, city string, phone string, updated_at timestamp"
      And the setting pipelines.shop.topics.info.columns = ["name", "city", "phone"]
      And the setting pipelines.shop.topics.tags = { source = "tags", columns = ["tag"], sequence = ["seq"] }
      Then shop.rows shows exactly
        | shop_id | name  | city | phone | item_count | score | tag |
        | 1       | North | Oslo |       |            |       |     |
        | 2       | South | Rome |       | 5          |       |     |
      When these rows arrive at info
        | kind | shop_id | name     | city | phone | updated_at       |
        | +U   | 1       | North II | Oslo | 555   | 2024-03-02 09:00 |
      And these rows arrive at tags
        | shop_id | tag  | seq |
        | 2       | open | 1   |
        | 3       | new  | 1   |
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | city | phone | item_count | score | tag  |
        | 1       | North II | Oslo | 555   |            |       |      |
        | 2       | South    | Rome |       | 5          |       | open |
        | 3       |          |      |       |            |       | new  |

    Scenario: A topic that is added is read from its beginning
      Given these rows arrive at tags
        | shop_id | tag    | seq |
        | 1       | closed | 1   |
        | 1       | open   | 2   |
      And an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      When the setting pipelines.shop.topics.tags = { source = "tags", columns = ["tag"], sequence = ["seq"] }
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name  | city | tag  |
        | 1       | North | Oslo | open |

    Scenario Outline: Another <what> is refused, because existing rows were made with the old one
      Given an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      When the setting <key> = <value>
      Then shop cannot run: <reason>

      Examples:
        | what       | key                                  | value                    | reason  |
        | key        | pipelines.shop.key                   | ["name"]                 | key     |
        | sequence   | pipelines.shop.topics.stock.sequence | ["items"]                | stock   |
        | condition  | pipelines.shop.topics.stock.where    | "items > 0"              | stock   |
        | expression | pipelines.shop.topics.stock.select   | { item_count = "items" } | column item_count |
        | owner      | pipelines.shop.topics.info.owner     | false                    | info    |
        | column     | pipelines.shop.topics.info.columns   | ["name"]                 | city    |

    Scenario: An edit that is refused leaves the tables as they are
      Given an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      When the setting pipelines.shop.topics.tags = { source = "tags", columns = ["tag"], sequence = ["seq"] }
      And the setting pipelines.shop.topics.stock.where = "items > 0"
      Then shop cannot run: topic stock
      When the setting pipelines.shop.topics.tags is taken out
      And the setting pipelines.shop.topics.stock.where is taken out
      And an epoch of info brings
        | kind | shop_id | name     | city | updated_at       |
        | +U   | 1       | North II | Oslo | 2024-03-01 10:00 |
      Then shop.rows shows exactly
        | shop_id | name     | city |
        | 1       | North II | Oslo |

  Rule: A change of the key is a delete of the old key and an insert of the new one, at one moment

    Background:
      Given the setting pipelines.shop.topics.rent = { source = "rent", columns = ["rent"], sequence = ["ver"] }
      And an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
      And these lines arrive at rent
        """
        {"database":"shop","table":"rent","type":"insert","ts":1,"data":{"shop_id":1,"rent":"10.50","ver":1}}
        """
      And shop runs until idle

    Scenario: A topic's record moves to another shop, and its old image arrives again
      When these lines arrive at rent
        """
        {"database":"shop","table":"rent","type":"update","ts":2,"data":{"shop_id":2,"rent":"11.00","ver":2},"old":{"shop_id":1,"rent":"10.50","ver":1}}
        {"database":"shop","table":"rent","type":"insert","ts":1,"data":{"shop_id":1,"rent":"10.50","ver":1}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name  | rent  |
        | 1       | North |       |
        | 2       |       | 11.00 |

    Scenario: A move that is older than the stored records changes neither shop
      Given these lines arrive at rent
        """
        {"database":"shop","table":"rent","type":"update","ts":2,"data":{"shop_id":1,"rent":"12.00","ver":5},"old":{"rent":"10.50","ver":1}}
        {"database":"shop","table":"rent","type":"insert","ts":2,"data":{"shop_id":2,"rent":"20.00","ver":5}}
        """
      And shop runs until idle
      When these lines arrive at rent
        """
        {"database":"shop","table":"rent","type":"update","ts":2,"data":{"shop_id":2,"rent":"11.00","ver":4},"old":{"shop_id":1,"ver":1}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name  | rent  |
        | 1       | North | 12.00 |
        | 2       |       | 20.00 |

    Scenario: Plain rows may have both images, and the owner's row moves
      Given an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
        | +U   | 9       | 2     | 3   |
      When an epoch of info brings
        | kind | shop_id | name  | city | updated_at       |
        | -U   | 1       | North | Oslo | 2024-03-01 09:00 |
        | +U   | 9       | North | Oslo | 2024-03-01 10:00 |
      Then shop.rows shows exactly
        | shop_id | name  | city | item_count | rent |
        | 9       | North | Oslo | 2          |      |

  Rule: A topic's records are shaped by expressions over one row

    Scenario: A record is projected, filtered and mapped
      Given the setting pipelines.shop.topics.stock.select = { item_count = "coalesce(items, 0) * 2", full = "items > 5" }
      And the setting pipelines.shop.topics.stock.where = "items is null or items >= 0"
      When these lines arrive at stock
        """
        {"kind": "+U", "shop_id": 1, "items": 7, "seq": 1}
        {"kind": "+U", "shop_id": 2, "items": null, "seq": 1}
        {"kind": "+U", "shop_id": 1, "items": -7, "seq": 2}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | item_count | full |
        | 1       | 14         | true |
        | 2       | 0          |      |

    Scenario: A condition over columns that a delete lacks does not filter the delete
      Given the setting pipelines.shop.topics.stock.where = "items is not null"
      And an epoch of stock brings
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 1   |
      When an epoch of stock brings
        | kind | shop_id | items | seq |
        | -D   | 1       |       | 2   |
      Then shop.rows shows exactly
        | shop_id | item_count |
        | 1       |            |

    Scenario: A table function makes several records from one
      Given the setting sources.tags.schema = "shops string, tag string, seq bigint"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { shop_id = "explode(cast(split(shops, ',') as array<bigint>))", tag = "upper(tag)" }, sequence = ["seq"] }
      When these rows arrive at tags
        | shops | tag  | seq |
        | 1,2,3 | new  | 1   |
        | 2     | open | 2   |
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | tag  |
        | 1       | NEW  |
        | 2       | OPEN |
        | 3       | NEW  |

    Scenario: A list from which elements go, or that becomes empty, deletes their rows
      Given the setting pipelines.shop.topics.info.owner = false
      And the setting sources.tags.schema = "shops array<bigint>, tag string, seq bigint"
      And the setting sources.tags.format = "maxwell-json"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { shop_id = "explode(shops)" }, columns = ["tag"], sequence = ["seq"], owner = true }
      And these lines arrive at tags
        """
        {"type": "insert", "data": {"shops": [1, 2, 3], "tag": "new", "seq": 1}}
        {"type": "insert", "data": {"shops": [4], "tag": "open", "seq": 1}}
        {"type": "insert", "data": {"shops": [5], "tag": "busy", "seq": 1}}
        """
      And shop runs until idle
      When these lines arrive at tags
        """
        {"type": "update", "data": {"shops": [2], "tag": "new", "seq": 2}, "old": {"shops": [1, 2, 3], "seq": 1}}
        {"type": "update", "data": {"shops": [], "tag": "open", "seq": 2}, "old": {"shops": [4], "seq": 1}}
        {"type": "update", "data": {"shops": null, "tag": "busy", "seq": 2}, "old": {"shops": [5], "seq": 1}}
        {"type": "insert", "data": {"shops": [], "tag": "none", "seq": 2}}
        """
      And these lines arrive at tags
        """
        {"type": "update", "data": {"shops": [4], "tag": "late", "seq": 1}, "old": {"tag": "open"}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | tag |
        | 2       | new |
      And shop.dead_letters shows nothing

    Scenario: A delete that lacks the list from which its keys come is a dead letter
      Given the setting pipelines.shop.topics.info.owner = false
      And the setting sources.tags.schema = "shops array<bigint>, tag string, seq bigint"
      And the setting sources.tags.format = "debezium-json"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { shop_id = "explode(shops)" }, columns = ["tag"], sequence = ["seq"], owner = true }
      And these lines arrive at tags
        """
        {"op": "c", "source": {}, "after": {"shops": [1, 2], "tag": "new", "seq": 1}}
        {"op": "c", "source": {}, "after": {"shops": [3], "tag": "open", "seq": 1}}
        {"op": "c", "source": {}, "after": {"shops": [], "tag": "none", "seq": 1}}
        """
      And shop runs until idle
      When these lines arrive at tags
        """
        {"op": "d", "source": {}, "before": {"tag": "new", "seq": 1}}
        {"op": "d", "source": {}, "before": {"shops": [3], "tag": "open", "seq": 1}}
        {"op": "d", "source": {}, "before": {"shops": [], "tag": "none", "seq": 1}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | tag |
        | 1       | new |
        | 2       | new |
      And the dead letters of shop are exactly
        | row_kind | reason                     |
        | -D       | key column shop_id is null |

    Scenario: A delete without a list deletes the row if the list gives no key
      Given the setting pipelines.shop.topics.info.owner = false
      And the setting sources.tags.schema = "kind string, shop_id bigint, tags array<string>, seq bigint"
      And the setting sources.tags.row_kind = "kind"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { tag = "explode(tags)" }, sequence = ["seq"], owner = true }
      And these lines arrive at tags
        """
        {"kind": "+I", "shop_id": 1, "tags": ["a", "b"], "seq": 1}
        {"kind": "+I", "shop_id": 2, "tags": ["a", "b"], "seq": 1}
        """
      And shop runs until idle
      When these lines arrive at tags
        """
        {"kind": "-D", "shop_id": 1, "seq": 2}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | tag |
        | 2       | b   |
      And shop.dead_letters shows nothing

    Scenario: An update to an empty list deletes the row of its key, also without its old image
      Given the setting pipelines.shop.topics.info.owner = false
      And the setting sources.tags.schema = "shop_id bigint, tags array<string>, seq bigint"
      And the setting sources.tags.format = "debezium-json"
      And the setting sources.tags.key = ["shop_id"]
      And the setting sources.tags.before = "optional"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { tag = "explode(tags)" }, sequence = ["seq"], owner = true }
      And these lines arrive at tags
        """
        {"op": "c", "source": {}, "after": {"shop_id": 1, "tags": ["a", "b"], "seq": 1}}
        {"op": "c", "source": {}, "after": {"shop_id": 2, "tags": ["a", "b"], "seq": 1}}
        {"op": "c", "source": {}, "after": {"shop_id": 3, "tags": ["c"], "seq": 1}}
        """
      And shop runs until idle
      When these lines arrive at tags
        """
        {"op": "u", "source": {}, "before": null, "after": {"shop_id": 1, "tags": [], "seq": 2}}
        {"op": "u", "source": {}, "before": {"shop_id": 2, "tags": ["a", "b"], "seq": 1}, "after": {"shop_id": 2, "tags": null, "seq": 2}}
        {"op": "u", "source": {}, "before": null, "after": {"shop_id": 3, "tags": ["d"], "seq": 2}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | tag |
        | 3       | d   |
      And shop.dead_letters shows nothing

    Scenario: Dead letters that are read again without a fix change nothing, and do not become more
      Given the setting pipelines.shop.topics.info.owner = false
      And the setting sources.tags.schema = "shops array<bigint>, tag string, seq bigint"
      And the setting sources.tags.format = "maxwell-json"
      And the setting pipelines.shop.topics.tags = { source = "tags", select = { shop_id = "explode(shops)" }, columns = ["tag"], sequence = ["seq"], owner = true }
      And these lines arrive at tags
        """
        {"type": "insert", "data": {"shops": [1], "tag": "new", "seq": 1}}
        {"type": "update", "data": {"shops": [2], "tag": "new", "seq": null}, "old": {"shops": [1], "seq": 1}}
        {"type": "insert", "data": {"shops": [3, 4, 5], "tag": "open", "seq": null}}
        """
      And shop runs until idle
      When the dead letters of shop are read again
      And the dead letters of shop are read again
      Then shop.rows shows exactly
        | shop_id | tag |
        | 1       | new |
      And the dead letters of shop are exactly
        | row_kind | reason                                                           |
        | -U       | sequence (seq) has only nulls: it is unknown whether it is newer |
        | +U       | sequence (seq) has only nulls: it is unknown whether it is newer |
        | +I       | sequence (seq) has only nulls: it is unknown whether it is newer |

    Scenario Outline: SQL that needs more than one record is refused with the reason: <what>
      Given the setting pipelines.shop.topics.stock.<key> = <value>
      Then shop cannot run: <reason>

      Examples:
        | what             | key    | value                                                                      | reason            |
        | an aggregate     | select | { item_count = "sum(items)" }                                              | an aggregate, sum |
        | a window         | select | { item_count = "row_number() over (partition by shop_id order by items)" } | a window function |
        | a subquery       | select | { item_count = "(select max(items) from stock)" }                          | a subquery        |
        | a grouping       | select | { item_count = "items group by shop_id" }                                  | GROUP BY          |
        | chance           | select | { item_count = "cast(rand() * items as int)" }                             | rand              |
        | an aggregate in a condition | where | "items > max(items)"                                             | an aggregate, max |

  Rule: A field that a record lacks stays as it is; a field that is null in the record becomes null

    Scenario: An absent field has no effect and null overwrites, each column by the newest record that has it
      Given these lines arrive at info
        """
        {"kind": "+I", "shop_id": 1, "name": "North", "city": "Oslo", "updated_at": "2024-03-01T09:00:00Z"}
        {"kind": "+I", "shop_id": 2, "name": "South", "city": "Rome", "updated_at": "2024-03-01T09:00:00Z"}
        {"kind": "+I", "shop_id": 3, "name": "East", "city": "Kyiv", "updated_at": "2024-03-01T09:00:00Z"}
        """
      And shop runs until idle
      When these lines arrive at info
        """
        {"kind": "+U", "shop_id": 1, "name": "North II", "updated_at": "2024-03-01T12:00:00Z"}
        {"kind": "+U", "shop_id": 1, "name": "North I", "city": "Cork", "updated_at": "2024-03-01T11:00:00Z"}
        {"kind": "+U", "shop_id": 2, "city": null, "updated_at": "2024-03-01T12:00:00Z"}
        {"kind": "+U", "shop_id": 3, "updated_at": "2024-03-01T12:00:00Z"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | city |
        | 1       | North II | Cork |
        | 2       | South    |      |
        | 3       | East     | Kyiv |
      # A delete tells of every column, so what comes back later does not bring the old city.
      When these lines arrive at info
        """
        {"kind": "-D", "shop_id": 1, "updated_at": "2024-03-01T13:00:00Z"}
        {"kind": "+I", "shop_id": 1, "name": "New North", "updated_at": "2024-03-01T14:00:00Z"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name      | city |
        | 1       | New North |      |
        | 2       | South     |      |
        | 3       | East      | Kyiv |

    Scenario: A topic may treat absent fields as null
      Given the setting pipelines.shop.topics.info.absent = "null"
      And these lines arrive at info
        """
        {"kind": "+I", "shop_id": 1, "name": "North", "city": "Oslo", "updated_at": "2024-03-01T09:00:00Z"}
        """
      And shop runs until idle
      When these lines arrive at info
        """
        {"kind": "+U", "shop_id": 1, "name": "North II", "updated_at": "2024-03-01T12:00:00Z"}
        {"kind": "+U", "shop_id": 1, "name": "North I", "city": "Cork", "updated_at": "2024-03-01T11:00:00Z"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | city |
        | 1       | North II |      |

    Scenario: A topic may ignore its nulls
      Given the setting pipelines.shop.topics.info.nulls = "keep"
      And these lines arrive at info
        """
        {"kind": "+I", "shop_id": 1, "name": "North", "city": "Oslo", "updated_at": "2024-03-01T09:00:00Z"}
        """
      And shop runs until idle
      When these lines arrive at info
        """
        {"kind": "+U", "shop_id": 1, "name": "North II", "city": null, "updated_at": "2024-03-01T12:00:00Z"}
        {"kind": "+U", "shop_id": 1, "name": null, "city": "Cork", "updated_at": "2024-03-01T11:00:00Z"}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | city |
        | 1       | North II | Cork |

    Scenario: A value that Debezium could not send stays as it is
      Given the setting pipelines.shop.topics.notes = { source = "notes", columns = ["note", "author"], sequence = ["ver"] }
      And these lines arrive at notes
        """
        {"op": "c", "after": {"shop_id": 1, "note": "long", "author": "ann", "ver": 1}, "source": {"ts_ms": 1}}
        {"op": "c", "after": {"shop_id": 2, "note": "longer", "author": "ann", "ver": 1}, "source": {"ts_ms": 1}}
        {"op": "u", "after": {"shop_id": 1, "note": "__debezium_unavailable_value", "author": "bob", "ver": 3}, "source": {"ts_ms": 1}}
        """
      And shop runs until idle
      When these lines arrive at notes
        """
        {"op": "u", "after": {"shop_id": 1, "note": "short", "author": "cid", "ver": 2}, "source": {"ts_ms": 1}}
        {"op": "u", "after": {"shop_id": 2, "note": "__debezium_unavailable_value", "author": null, "ver": 2}, "source": {"ts_ms": 1}}
        {"op": "u", "after": {"shop_id": 3, "note": "__debezium_unavailable_value", "author": "dan", "ver": 2}, "source": {"ts_ms": 1}}
        """
      And shop runs until idle
      And these lines arrive at notes
        """
        {"op": "c", "after": {"shop_id": 2, "note": "__debezium_unavailable_value", "author": "eve", "ver": 3}, "source": {"ts_ms": 1}}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | note   | author |
        | 1       | short  | bob    |
        | 2       | longer | eve    |
        | 3       |        | dan    |

  Rule: A reader can tell which topics have reported, and how far each

    Scenario: Completeness has a row for every shop that any topic has sent
      Given these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | -D   | 2       | South | Rome | 2024-03-01 10:00 |
      And these rows arrive at score
        | shop_id | score | day        | run |
        | 1       | 4.5   | 2024-03-02 | 1   |
      And shop runs until idle
      When these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
        | -D   | 3       |       | 8   |
      And these rows arrive at score
        | shop_id | score | day        | run |
        | 1       | 4.1   | 2024-03-01 | 9   |
      And shop runs until idle
      Then shop.completeness shows exactly
        | shop_id | present | info_reported | info_deleted | info_updated_at  | info_epoch | stock_reported | stock_deleted | stock_seq | stock_epoch | score_reported | score_deleted | score_day  | score_run | score_epoch |
        | 1       | true    | true          | false        | 2024-03-01 09:00 | 0          | true           | false         | 3         | 1           | true           | false         | 2024-03-02 | 1         | 0           |
        | 2       | false   | true          | true         | 2024-03-01 10:00 | 0          | false          | false         |           |             | false          | false         |            |           |             |
        | 3       | true    | false         | false        |                  |            | true           | true          | 8         | 1           | false          | false         |            |           |             |
      And shop.rows shows exactly
        | shop_id | name  | item_count | score |
        | 1       | North | 7          | 4.5   |
        | 3       |       |            |       |

  Rule: Records that cannot be used are kept with the reason

    Scenario: Records without a key or a sequence, and records that cannot be read
      When these lines arrive at info
        """
        {"kind": "+I", "shop_id": null, "name": "North", "city": "Oslo", "updated_at": "2024-03-01T09:00:00Z"}
        {"kind": "+I", "shop_id": 1, "name": "North", "city": "Oslo", "updated_at": null}
        {"kind": "+I", "shop_id": 1, "name": "North", "city": "Oslo", "updated_at": "yesterday"}
        {"kind": "+I", "shop_id": 1
        """
      And these lines arrive at score
        """
        {"shop_id": 2, "score": 4.5, "day": null}
        {"shop_id": 2, "score": 4.55, "day": "2024-03-01", "run": 1}
        {"shop_id": 2, "score": 4.5, "day": "2024-03-01", "run": 1}
        """
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name | score |
        | 2       |      | 4.5   |
      And the dead letters of shop are exactly
        | epoch | row_kind | reason |
        | 0     | +I       | key column shop_id is null |
        | 0     | +I       | sequence (updated_at) has only nulls: it is unknown whether it is newer |
        | 0     |          | column 'updated_at': timestamp wanted, not 'yesterday' (write YYYY-MM-DD HH:MM[:SS[.ffffff]], with a space or T, and Z or +HH:MM at the end if it has an offset) |
        | 0     |          | not JSON: Input data was truncated |
        | 0     | +I       | sequence (day, run) has only nulls: it is unknown whether it is newer |
        | 0     |          | column 'score': decimal(3,1) wanted, not 4.55 (more than 1 decimals) |

    Scenario: Dead letters of two topics are read again after a fix, and do not replace newer records
      Given the setting sources.score.schema = "shop_id bigint, score decimal(3,1), votes int, day date, run bigint"
      And these lines arrive at score
        """
        {"shop_id": 1, "score": 4.5, "votes": "many", "day": "2024-03-01", "run": 1}
        {"shop_id": 2, "score": 3.5, "votes": "few", "day": "2024-03-01", "run": 1}
        {"shop_id": 2, "score": 3.6, "votes": 12, "day": "2024-03-01", "run": 2}
        """
      And these lines arrive at info
        """
        {"kind": "+I", "shop_id": 1, "name": "North", "updated_at": null}
        {"kind": "+I", "shop_id": 2, "name": "South", "updated_at": "2024-03-01T09:00:00Z"}
        """
      And shop runs until idle
      When the setting sources.score.schema = "shop_id bigint, score decimal(3,1), day date, run bigint"
      And the dead letters of shop are read again
      Then shop.rows shows exactly
        | shop_id | name  | score |
        | 1       |       | 4.5   |
        | 2       | South | 3.6   |
      And the dead letters of shop are exactly
        | epoch | format | row_kind | raw                                                                   |
        | 1     | json   | +I       | {"kind": "+I", "shop_id": 1, "name": "North", "updated_at": null} |

  Rule: Whatever happens to a run, each record counts once, and no reader sees half an epoch

    Background:
      Given these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | +I   |         | West  | Cork | 2024-03-01 09:00 |
      And shop runs until idle

    @core @faults
    Scenario Outline: A crash <moment> leaves no shop half updated
      When these rows arrive at stock
        | kind | shop_id | items | seq |
        | +U   | 1       | 7     | 3   |
        | +U   |         | 5     | 3   |
      And these rows arrive at info
        | kind | shop_id | name     | city | updated_at       |
        | +U   | 1       | North II | Oslo | 2024-03-01 10:00 |
      And shop crashes <moment>
      And these rows arrive at score
        | shop_id | score | day        | run |
        | 1       | 4.5   | 2024-03-02 | 1   |
      Then shop.rows shows exactly
        | shop_id | name  | item_count | score |
        | 1       | North |            |       |
      When shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name     | item_count | score |
        | 1       | North II | 7          | 4.5   |
      And the dead letters of shop are exactly
        | epoch | reason                     |
        | 0     | key column shop_id is null |
        | 1     | key column shop_id is null |
      And shop has published 3 epochs

      Examples:
        | moment                 |
        | after the first commit |
        | before the publication |

    Scenario: Records that topics send again change nothing
      When these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +U   | 1       | South | Rome | 2024-03-01 10:00 |
      And shop runs until idle
      And these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | +I   | 1       | North | Oslo | 2024-03-01 09:00 |
        | +U   | 1       | South | Rome | 2024-03-01 10:00 |
      And shop runs until idle
      Then shop.rows shows exactly
        | shop_id | name  | city |
        | 1       | South | Rome |

    Scenario: A reader's rows do not change, and the rows are also stored as a plain table
      Given the setting pipelines.shop.materialize = ["rows"]
      And a reader holds shop.rows
      When these rows arrive at info
        | kind | shop_id | name  | city | updated_at       |
        | -D   | 1       | North | Oslo | 2024-03-01 11:00 |
        | +I   | 2       | South | Rome | 2024-03-01 11:00 |
      And shop runs until idle
      And the tables of shop are compacted
      Then the reader still sees exactly
        | shop_id | name  |
        | 1       | North |
      And shop.rows shows exactly
        | shop_id | name  |
        | 2       | South |
      And the table shop.rows holds exactly
        | shop_id | name  | city | item_count | score |
        | 2       | South | Rome |            |       |
      And shop.rows as known at epoch 0 shows exactly
        | shop_id | name  |
        | 1       | North |
