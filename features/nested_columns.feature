Feature: Nested columns are carried as they are
  A column may hold lists, and objects of named fields. They are decoded, kept, published, shown and compared between
  versions like other values. They are not computed with: a key, an order or a group cannot be one.

  Background:
    Given the deployment nested.toml

  @core @lake
  Scenario: A wide table keeps lists and objects of each topic, whichever is null, empty or has only empty fields
    When these lines arrive at orders
      """
      {"kind": "c", "order_id": 1, "seq": 2, "tags": ["new", null, "x"], "address": {"zip": "10", "city": "Oslo", "since": "2024-03-01T09:00:00+01:00"}, "lines": [{"sku": "a", "n": 1, "price": 2.5}, null]}
      {"kind": "c", "order_id": 1, "seq": 1, "tags": ["old"], "address": {"city": "Rome"}, "lines": []}
      {"kind": "c", "order_id": 2, "seq": 1, "tags": [], "address": {}, "lines": [{}]}
      {"kind": "c", "order_id": 3, "seq": 1, "tags": null}
      """
    And these lines arrive at shipments
      """
      {"order_id": 1, "seq": 1, "parcels": [{"weight": 1.5, "seals": ["p", "q"]}, {"weight": null, "seals": []}]}
      """
    And parcels runs until idle
    Then parcels.rows shows exactly
      | order_id | tags             | address                                                          | all_lines                                          | parcels                                                                      |
      | 1        | ["new",null,"x"] | {"city": "Oslo", "zip": "10", "since": "2024-03-01T08:00:00Z"}   | [{"sku": "a", "n": 1, "price": 2.50}, null]        | [{"weight": 1.5, "seals": ["p","q"]}, {"weight": null, "seals": []}]         |
      | 2        | []               | {"city": null, "zip": null, "since": null}                       | [{"sku": null, "n": null, "price": null}]          |                                                                              |
      | 3        |                  |                                                                  |                                                    |                                                                              |
    When these lines arrive at orders
      """
      {"kind": "u", "order_id": 1, "seq": 3, "tags": ["paid"], "lines": null}
      {"kind": "d", "order_id": 2, "seq": 2}
      """
    And parcels runs until idle
    Then parcels.rows shows exactly
      | order_id | tags     | address                                                        | all_lines | parcels                                                              |
      | 1        | ["paid"] | {"city": "Oslo", "zip": "10", "since": "2024-03-01T08:00:00Z"} |           | [{"weight": 1.5, "seals": ["p","q"]}, {"weight": null, "seals": []}] |
      | 3        |          |                                                                |           |                                                                      |

  @core
  Scenario: A map is kept as its entries, in the order of their keys, so equal maps are equal rows
    Given these lines arrive at orders
      """
      {"kind": "c", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "weights": {"net": 1.5, "gross": 2, "Box": null}}
      {"kind": "c", "shop": 1, "order_id": 2, "at": "2024-03-01 10:00:00", "weights": {}}
      {"kind": "c", "shop": 1, "order_id": 3, "at": "2024-03-01 11:00:00", "weights": {"net": "heavy"}}
      {"kind": "c", "shop": 1, "order_id": 4, "at": "2024-03-01 12:00:00"}
      """
    And order_rank runs until idle
    When these lines arrive at orders
      """
      {"kind": "u", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "weights": {"gross": 2.0, "Box": null, "net": 1.50}}
      {"kind": "u", "shop": 1, "order_id": 2, "at": "2024-03-01 10:00:00", "weights": {"net": 3}}
      """
    And order_rank runs until idle
    Then order_rank.ranks shows exactly
      | order_id | weights                                                                                              |
      | 1        | [{"key": "Box", "value": null}, {"key": "gross", "value": 2.00}, {"key": "net", "value": 1.50}]      |
      | 2        | [{"key": "net", "value": 3.00}]                                                                      |
      | 4        |                                                                                                      |
    When reports runs until idle
    Then reports.weighed shows exactly
      | order_id | what  | weight |
      | 1        | Box   |        |
      | 1        | gross | 2.00   |
      | 1        | net   | 1.50   |
      | 2        | net   | 3.00   |
    And order_rank.ranks differs since epoch 0 by exactly
      | _row_kind | order_id | weights                         |
      | -U        | 2        | []                              |
      | +U        | 2        | [{"key": "net", "value": 3.00}] |
    And the dead letters of order_rank are exactly
      | reason                                                         |
      | column 'weights[net]': decimal(9,2) wanted, not 'heavy'        |

  @core
  Scenario: Between two versions, a change inside a value is a change, and an equal value is none
    Given these lines arrive at orders
      """
      {"kind": "c", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "tags": ["a", "b"], "address": {"city": "Oslo", "zip": "10"}, "lines": [{"sku": "a", "n": 1}]}
      {"kind": "c", "shop": 1, "order_id": 2, "at": "2024-03-01 10:00:00", "tags": ["a"], "address": {"city": "Oslo"}, "lines": []}
      {"kind": "c", "shop": 1, "order_id": 3, "at": "2024-03-01 11:00:00", "tags": [], "address": {}}
      """
    And order_rank runs until idle
    When these lines arrive at orders
      """
      {"kind": "u", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "tags": ["a", "b"], "address": {"zip": "10", "city": "Oslo"}, "lines": [{"n": 1, "sku": "a"}]}
      {"kind": "u", "shop": 1, "order_id": 2, "at": "2024-03-01 10:00:00", "tags": ["a"], "address": {"city": "Rome"}, "lines": []}
      {"kind": "u", "shop": 1, "order_id": 3, "at": "2024-03-01 11:00:00", "tags": null, "address": null}
      """
    And order_rank runs until idle
    Then order_rank.ranks differs since epoch 0 by exactly
      | _row_kind | order_id | rank | tags  | address                                        | lines |
      | -U        | 2        | 2    | ["a"] | {"city": "Oslo", "zip": null, "since": null}   | []    |
      | +U        | 2        | 2    | ["a"] | {"city": "Rome", "zip": null, "since": null}   | []    |
      | -U        | 3        | 3    | []    | {"city": null, "zip": null, "since": null}     |       |
      | +U        | 3        | 3    |       |                                                |       |

  Scenario: A batch stage publishes them, takes fields of objects, and makes rows of lists
    When these lines arrive at orders
      """
      {"kind": "c", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "tags": ["a"], "address": {"city": "Oslo"}, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]}
      {"kind": "c", "shop": 1, "order_id": 2, "at": "2024-03-01 10:00:00", "tags": ["b"], "lines": [null, {"sku": "c"}]}
      {"kind": "c", "shop": 2, "order_id": 3, "at": "2024-03-01 11:00:00", "lines": []}
      """
    And order_rank runs until idle
    And reports runs until idle
    Then reports.firsts shows exactly
      | shop | order_id | tags  | address                                      |
      | 1    | 1        | ["a"] | {"city": "Oslo", "zip": null, "since": null} |
      | 2    | 3        |       |                                              |
    And reports.pieces shows exactly
      | order_id | sku | n |
      | 1        | a   | 1 |
      | 1        | b   | 2 |
      | 2        |     |   |
      | 2        | c   |   |

  Rule: A changelog and the load of its table carry them, into a view over the merged table

    Background:
      Given a chunk of book
        | order_id | address                        | lines                   | pos |
        | 1        | {"city": "Oslo", "zip": "10"}  | [{"sku": "a", "n": 1}]  | 100 |
        | 2        | {"city": "Rome"}               |                         | 100 |
        | 3        |                                | []                      | 100 |
      And these lines arrive at order_log
        """
        {"database":"shop","table":"orders","type":"insert","ts":1709283600,"position":"bin.000001:50","xid":1,"commit":true,"data":{"order_id":9,"address":null,"lines":null}}
        {"database":"shop","table":"orders","type":"update","ts":1709283660,"position":"bin.000001:200","xid":2,"commit":true,"data":{"order_id":1,"address":{"city":"Oslo","zip":"11"},"lines":[{"sku":"a","n":"1"},{"sku":"b","n":2}]},"old":{"address":{"city":"Oslo","zip":"10"},"lines":[{"sku":"a","n":1}]}}
        {"database":"shop","table":"orders","type":"update","ts":1709283720,"position":"bin.000001:300","xid":3,"commit":true,"data":{"order_id":2,"address":"{\"city\": \"Paris\"}","lines":"[{\"sku\": \"c\"}]"},"old":{"lines":null}}
        """
      And all pipelines run until idle

    Scenario: The newest image of each key, from JSON and from the text of JSON
      Then book.rows shows exactly
        | order_id | address                         | lines                                              |
        | 1        | {"city": "Oslo", "zip": "11"}   | [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]       |
        | 2        | {"city": "Paris", "zip": null}  | [{"sku": "c", "n": null}]                          |
        | 3        |                                 | []                                                 |
        | 9        |                                 |                                                    |
      And book_lines.rows shows exactly
        | order_id | city  | address                         | lines                                        |
        | 1        | Oslo  | {"city": "Oslo", "zip": "11"}   | [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}] |
        | 2        | Paris | {"city": "Paris", "zip": null}  | [{"sku": "c", "n": null}]                    |
        | 3        |       |                                 | []                                           |

    Scenario: A view over the merged table changes with what is inside
      When these lines arrive at order_log
        """
        {"database":"shop","table":"orders","type":"update","ts":1709283900,"position":"bin.000001:400","xid":4,"commit":true,"data":{"order_id":1,"address":{"city":"Oslo","zip":"12"},"lines":[{"sku":"a","n":1},{"sku":"b","n":2}]},"old":{"address":{"city":"Oslo","zip":"11"}}}
        {"database":"shop","table":"orders","type":"update","ts":1709283960,"position":"bin.000001:500","xid":5,"commit":true,"data":{"order_id":3,"address":null,"lines":null},"old":{"lines":[]}}
        {"database":"shop","table":"orders","type":"insert","ts":1709284020,"position":"bin.000001:600","xid":6,"commit":true,"data":{"order_id":10}}
        """
      And all pipelines run until idle
      Then book_lines.rows shows exactly
        | order_id | address                        | lines                                        |
        | 1        | {"city": "Oslo", "zip": "12"}  | [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}] |
        | 2        | {"city": "Paris", "zip": null} | [{"sku": "c", "n": null}]                    |

  Scenario: What does not fit makes a dead letter that names its place; fields that are not declared are left out
    When these lines arrive at orders
      """
      {"kind": "c", "shop": 1, "order_id": 1, "at": "2024-03-01 09:00:00", "tags": "a"}
      {"kind": "c", "shop": 1, "order_id": 2, "at": "2024-03-01 09:00:00", "lines": [{"n": 1}, {"n": 1.5}]}
      {"kind": "c", "shop": 1, "order_id": 3, "at": "2024-03-01 09:00:00", "address": {"since": "soon"}}
      {"kind": "c", "shop": 1, "order_id": 4, "at": "2024-03-01 09:00:00", "tags": [5, {"k": 1.10}], "address": {"city": "Oslo", "City": "Rome", "more": [1]}}
      """
    And order_rank runs until idle
    Then order_rank.ranks shows exactly
      | order_id | tags              | address                                      |
      | 4        | ["5","{\"k\":1.10}"] | {"city": "Oslo", "zip": null, "since": null} |
    And the dead letters of order_rank are exactly
      | reason                                                                                                                                    |
      | column 'tags': array<string> wanted, not 'a'                                                                                              |
      | column 'lines[1].n': int wanted, not 1.5 (not a whole number)                                                                             |
      | column 'address.since': timestamp wanted, not 'soon' (write YYYY-MM-DD HH:MM[:SS[.ffffff]], with a space or T, and Z or +HH:MM at the end if it has an offset) |
    # A table keeps its types, also inside.
    When the setting sources.orders.schema = "kind string, order_id bigint, shop bigint, at timestamp, seq bigint, tags array<string>, address struct<city:string, zip:string, since:timestamp>, lines array<struct<sku:string, n:bigint>>"
    Then running order_rank fails with SchemaConflict: only new columns can be added

  Scenario Outline: Nothing that is compared may be nested: <key>
    When the setting <key> = <value>
    Then order_rank cannot run: <reason>

    Examples:
      | key                                   | value                    | reason                                                  |
      | pipelines.order_rank.group            | ["tags"]                 | group column 'tags' is a array<string>                  |
      | pipelines.order_rank.id               | ["address"]              | id column 'address' is a struct<                        |
      | pipelines.order_rank.order_by         | "lines"                  | lines                                                   |
      | sources.orders.event_time             | "tags"                   | column 'tags' must be a timestamp or date               |
      | pipelines.parcels.topics.orders.sequence | ["tags"]              | sequence 'tags' is a array<string>                      |
      | pipelines.parcels.key                 | ["tags"]                 | tags                                                    |
      | pipelines.parcels.topics.orders.where | "tags"                   | write a condition                                       |
      | pipelines.book.position               | "lines"                  | position 'lines' is a array<struct<sku:string,n:int>>   |
      | pipelines.book.bulk                   | { path = "book", format = "csv" } | csv has no nested values                       |
      | sources.orders.format                 | "csv"                    | csv has no nested values                                |
      | sources.orders.schema                 | "kind string, order_id bigint, shop bigint, at timestamp, more map<date,int>" | keys of a map are strings or integers |
      | pipelines.order_rank.group            | ["weights"]              | group column 'weights' is a array<struct<key:string,value:decimal(9,2)>> |
