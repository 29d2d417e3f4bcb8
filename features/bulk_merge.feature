Feature: A table is loaded in bulk while its changes arrive
  The load and the changelog run at the same time, without a lock or a stop. A row of the load is the oldest image of its
  key; every change of the key after the read is newer. Every publication shows the table as of the position that the
  changelog has reached, as far as the table is known by then.

  Rule: If the load and the changelog share a position, the newest image of a key counts

    Background:
      Given the deployment accounts.toml

    @core @lake
    Scenario: A change before its chunk was read, a change after it, and a change of a key that is in no chunk
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 200 |
        | 2       | bob   | 20.00   | 200 |
        | 3       | cat   | 30.00   | 200 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 5.00    | 100 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 10.00   | 100 | 2024-03-01 09:00 |
        | -U   | 2       | bob   | 20.00   | 300 | 2024-03-01 09:01 |
        | +U   | 2       | bob   | 25.00   | 300 | 2024-03-01 09:01 |
        | +I   | 4       | dan   | 40.00   | 310 | 2024-03-01 09:02 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 25.00   |
        | 3       | cat   | 30.00   |
        | 4       | dan   | 40.00   |

    Scenario: A chunk waits until the changelog has reached the position at which the chunk was read
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 200 |
        | 2       | bob   | 20.00   | 200 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 3.00    | 100 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 5.00    | 100 | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 5.00    |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 5.00    | 200 | 2024-03-01 09:05 |
        | +U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:05 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 20.00   |

    Scenario: A row that was deleted after its chunk was read does not come back with the chunk
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
      And a chunk of accounts
        | account | owner | balance | pos |
        | 2       | bob   | 20.00   | 100 |
        | 3       | cat   | 30.00   | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -D   | 3       | cat   | 30.00   | 200 | 2024-03-01 09:00 |
      And accounts runs one epoch
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
      When all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 20.00   |

    Scenario: A row that was deleted before its chunk was read, and inserted again after it
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 2       | bob   | 20.00   | 200 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -D   | 1       | ann   | 10.00   | 100 | 2024-03-01 09:00 |
        | +I   | 1       | eve   | 50.00   | 300 | 2024-03-01 09:01 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | eve   | 50.00   |
        | 2       | bob   | 20.00   |

    Scenario: A key that moves from a chunk that has been read to one that has not
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
      And a chunk of accounts
        | account | owner | balance | pos |
        | 8       | hal   | 80.00   | 150 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
        | +U   | 9       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
      And accounts runs one epoch
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 9       | ann   | 10.00   |
      When all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 8       | hal   | 80.00   |
        | 9       | ann   | 10.00   |

    Scenario: Changes that a producer sends again after a crash have no effect
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 12.00   | 200 | 2024-03-01 09:00 |
        | -U   | 1       | ann   | 12.00   | 210 | 2024-03-01 09:01 |
        | +U   | 1       | ann   | 15.00   | 210 | 2024-03-01 09:01 |
      And these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 12.00   | 200 | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 15.00   |

    Scenario: Without event times, a record that is sent again, or a late chunk, does not bring a deleted row back
      Given the setting sources.account_log.event_time is taken out
      And a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | +I   | 5       | eve   | 50.00   | 110 | 2024-03-01 09:01 |
      And all pipelines run until idle
      And these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -D   | 5       | eve   | 50.00   | 120 | 2024-03-01 09:02 |
      And all pipelines run until idle
      And these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | +I   | 5       | eve   | 50.00   | 110 | 2024-03-01 09:01 |
        | +I   | 6       | fay   | 60.00   | 130 | 2024-03-01 09:03 |
      And all pipelines run until idle
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 5       | eve   | 50.00   | 115 |
        | 7       | gus   | 70.00   | 115 |
      When all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 6       | fay   | 60.00   |
        | 7       | gus   | 70.00   |

    Scenario Outline: A load whose process dies resumes where it was
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
        | 2       | bob   | 20.00   | 100 |
      And a chunk of accounts
        | account | owner | balance | pos |
        | 3       | cat   | 30.00   | 150 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 2       | bob   | 20.00   | 200 | 2024-03-01 09:00 |
        | +U   | 2       | bob   | 21.00   | 200 | 2024-03-01 09:00 |
        | -D   | 3       | cat   | 30.00   | 210 | 2024-03-01 09:01 |
      And accounts crashes <moment>
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 21.00   |

      Examples:
        | moment                  |
        | before the first commit |
        | after the first commit  |
        | before the publication  |
        | after the publication   |

    Scenario: Each publication has complete row kinds, in whatever order rows arrive
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
        | 2       | bob   | 20.00   | 100 |
      And a chunk of accounts
        | account | owner | balance | pos |
        | 8       | hal   | 80.00   | 100 |
        | 9       | ida   | 90.00   | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 11.00   | 200 | 2024-03-01 09:00 |
        | -U   | 8       | hal   | 80.00   | 201 | 2024-03-01 09:00 |
        | +U   | 8       | hal   | 81.00   | 201 | 2024-03-01 09:00 |
        | -D   | 9       | ida   | 90.00   | 202 | 2024-03-01 09:00 |
      And accounts runs one epoch
      Then accounts.rows differs since epoch -1 by exactly
        | _row_kind | account | balance |
        | +I        | 1       | 11.00   |
        | +I        | 2       | 20.00   |
        | +I        | 8       | 81.00   |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 8       | hal   | 81.00   | 300 | 2024-03-01 09:05 |
        | +U   | 8       | hal   | 82.00   | 300 | 2024-03-01 09:05 |
        | -D   | 2       | bob   | 20.00   | 301 | 2024-03-01 09:05 |
      And all pipelines run until idle
      Then accounts.rows differs since epoch 0 by exactly
        | _row_kind | account | balance |
        | -U        | 8       | 81.00   |
        | +U        | 8       | 82.00   |
        | -D        | 2       | 20.00   |

    Scenario: A chunk settles as soon as the changelog has passed the position at which it was read
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
        | 2       | bob   | 20.00   | 100 |
      And a chunk of accounts
        | account | owner | balance | pos |
        | 3       | cat   | 30.00   | 250 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 2       | bob   | 20.00   | 200 | 2024-03-01 09:00 |
        | +U   | 2       | bob   | 21.00   | 200 | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then accounts.settled shows exactly
        | low | high | rows | settled |
        | 1   | 2    | 2    | true    |
        | 3   | 3    | 1    | false   |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 2       | bob   | 21.00   | 300 | 2024-03-01 09:05 |
        | +U   | 2       | bob   | 22.00   | 300 | 2024-03-01 09:05 |
      And all pipelines run until idle
      Then accounts.settled shows exactly
        | low | high | rows | settled |
        | 1   | 2    | 2    | true    |
        | 3   | 3    | 1    | true    |
      And the table accounts.waiting holds exactly
        | account |
      And the table accounts.tombstones holds exactly
        | account |

    Scenario: The position contains the log's file name, whose number gets one more digit
      Given the setting sources.account_log.schema = "kind string, account bigint, owner string, balance decimal(18,2), file string, pos bigint, at timestamp"
      And the setting pipelines.accounts.position = ["file", "pos"]
      And a chunk of accounts
        | account | owner | balance | file              | pos |
        | 1       | ann   | 10.00   | mysql-bin.999999  | 100 |
        | 2       | bob   | 20.00   | mysql-bin.1000000 | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | file              | pos | at               |
        | +I   | 4       | dan   | 40.00   | mysql-bin.999999  | 900 | 2024-03-01 09:00 |
        | -U   | 1       | ann   | 10.00   | mysql-bin.999999  | 950 | 2024-03-01 09:01 |
        | +U   | 1       | ann   | 11.00   | mysql-bin.999999  | 950 | 2024-03-01 09:01 |
        | -U   | 1       | ann   | 11.00   | mysql-bin.1000000 | 10  | 2024-03-01 09:02 |
        | +U   | 1       | ann   | 12.00   | mysql-bin.1000000 | 10  | 2024-03-01 09:02 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | balance |
        | 1       | 12.00   |
        | 4       | 40.00   |
      When these rows arrive at account_log
        | kind | account | owner | balance | file              | pos | at               |
        | -U   | 4       | dan   | 40.00   | mysql-bin.1000000 | 200 | 2024-03-01 09:03 |
        | +U   | 4       | dan   | 41.00   | mysql-bin.1000000 | 200 | 2024-03-01 09:03 |
        | +I   | 4       | dan   | 40.00   | mysql-bin.999999  | 900 | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | balance |
        | 1       | 12.00   |
        | 2       | 20.00   |
        | 4       | 41.00   |
      When these rows arrive at account_log
        | kind | account | owner | balance | file              | pos | at               |
        | -U   | 1       | ann   | 12.00   | mysql-bin.1000001 | 4   | 2024-03-01 09:04 |
        | +U   | 1       | ann   | 13.00   | mysql-bin.1000001 | 4   | 2024-03-01 09:04 |
      And all pipelines run until idle
      Then accounts.rows as of 2024-03-01 09:03 shows exactly
        | account | balance |
        | 1       | 12.00   |
        | 2       | 20.00   |
        | 4       | 41.00   |

    Scenario: A chunk waits for the highest of its positions, not for the highest value of each column
      Given the setting sources.account_log.schema = "kind string, account bigint, owner string, balance decimal(18,2), file string, pos bigint, at timestamp"
      And the setting pipelines.accounts.position = ["file", "pos"]
      And a chunk of accounts
        | account | owner | balance | file              | pos |
        | 1       | ann   | 10.00   | mysql-bin.999999  | 900 |
        | 2       | bob   | 20.00   | mysql-bin.1000000 | 5   |
        | 3       | cat   | 30.00   | mysql-bin.999999  | 901 |
      When these rows arrive at account_log
        | kind | account | owner | balance | file              | pos | at               |
        | +I   | 4       | dan   | 40.00   | mysql-bin.1000000 | 4   | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then accounts.settled shows exactly
        | low | high | rows | settled |
        | 1   | 3    | 3    | false   |
      When these rows arrive at account_log
        | kind | account | owner | balance | file              | pos | at               |
        | +I   | 5       | eve   | 50.00   | mysql-bin.1000000 | 6   | 2024-03-01 09:01 |
      And all pipelines run until idle
      Then accounts.settled shows exactly
        | low | high | rows | settled |
        | 1   | 3    | 3    | true    |

    Scenario: The table as it was at an earlier time
      Given a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
      When these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | -U   | 1       | ann   | 10.00   | 200 | 2024-03-01 09:00 |
        | +U   | 1       | ann   | 11.00   | 200 | 2024-03-01 09:00 |
      And these rows arrive at account_log
        | kind | account | owner | balance | pos | at               |
        | +I   | 2       | bob   | 20.00   | 210 | 2024-03-01 09:10 |
        | -D   | 1       | ann   | 11.00   | 220 | 2024-03-01 09:20 |
        | +I   | 3       | cat   | 30.00   | 230 | 2024-03-01 09:30 |
      And all pipelines run until idle
      Then accounts.rows as of 2024-03-01 09:10 shows exactly
        | account | owner | balance |
        | 1       | ann   | 11.00   |
        | 2       | bob   | 20.00   |
      And accounts.rows as of 2024-03-01 09:25 shows exactly
        | account | owner | balance |
        | 2       | bob   | 20.00   |

  Rule: Without a position, a row of the load is shown when its earlier changes must have arrived

    Background:
      Given the deployment accounts.toml
      And the setting pipelines.accounts.position is taken out
      And the setting pipelines.accounts.delay = "5s"
      And the setting pipelines.accounts.bulk = { path = "accounts", format = "json", search_ts = "2024-03-01T09:00:00Z" }
      And a chunk of accounts
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 20.00   |
        | 3       | cat   | 30.00   |

    Scenario: The row waits until the watermark has passed the time of the read plus the delay
      When these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | +I   | 4       | dan   | 40.00   | 2024-03-01 09:00:03 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 4       | dan   | 40.00   |
      When these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | +I   | 5       | eve   | 50.00   | 2024-03-01 09:00:06 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 20.00   |
        | 3       | cat   | 30.00   |
        | 4       | dan   | 40.00   |
        | 5       | eve   | 50.00   |

    Scenario: A change or a delete that came first wins
      When these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | -U   | 1       | ann   | 10.00   | 2024-03-01 08:59:59 |
        | +U   | 1       | ann   | 11.00   | 2024-03-01 08:59:59 |
        | -D   | 2       | bob   | 20.00   | 2024-03-01 09:00:01 |
      And these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | -U   | 1       | ann   | 11.00   | 2024-03-01 09:00:10 |
        | +U   | 1       | ann   | 12.00   | 2024-03-01 09:00:10 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 12.00   |
        | 3       | cat   | 30.00   |
      And accounts.rows differs since epoch 0 by exactly
        | _row_kind | account | balance |
        | -U        | 1       | 11.00   |
        | +U        | 1       | 12.00   |
        | +I        | 3       | 30.00   |

    Scenario: A chunk that comes late among those that are loaded stops the run, although another one was removed
      Given a chunk of accounts
        | account | owner | balance |
        | 4       | dan   | 40.00   |
      When these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | +I   | 5       | eve   | 50.00   | 2024-03-01 09:00:06 |
      And all pipelines run until idle
      And the first chunk of accounts is removed, and another one comes in its place
        | account | owner | balance |
        | 6       | fay   | 60.00   |
      Then running accounts fails with SourceChanged: file 000001-late.json came after 000002.json had been read

    Scenario: A chunk that comes after the load is refused if rows may have been deleted since it was written
      When these rows arrive at account_log
        | kind | account | owner | balance | at               |
        | +I   | 5       | eve   | 50.00   | 2024-03-01 10:01 |
      And all pipelines run until idle
      And these rows arrive at account_log
        | kind | account | owner | balance | at               |
        | -D   | 5       | eve   | 50.00   | 2024-03-01 10:02 |
      And all pipelines run until idle
      Given a chunk of accounts
        | account | owner | balance |
        | 5       | eve   | 50.00   |
      Then running accounts fails with BadInput: came after the load was done.+ Remove its file
      And accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 10.00   |
        | 2       | bob   | 20.00   |
        | 3       | cat   | 30.00   |

    Scenario: A change that could not be used is placed by its time when it is read again
      Given the setting sources.account_log.schema = "kind string, account bigint, owner string, balance decimal(18,2), at timestamp, note bigint"
      When these lines arrive at account_log
        """
        {"kind": "+U", "account": 1, "owner": "ann", "balance": 11, "at": "2024-03-01T09:00:02Z", "note": "a text"}
        {"kind": "+U", "account": 2, "owner": "bob", "balance": 21, "at": "2024-03-01T09:00:02Z", "note": "a text"}
        {"kind": "+I", "account": 4, "owner": "dan", "balance": 40, "at": "2024-03-01T09:00:02Z", "note": "a text"}
        {"kind": "-D", "account": 4, "owner": "dan", "balance": 40, "at": "2024-03-01T09:00:04Z"}
        {"kind": "+U", "account": 2, "owner": "bea", "balance": 22, "at": "2024-03-01T09:00:06Z"}
        """
      And all pipelines run until idle
      And the setting sources.account_log.schema = "kind string, account bigint, owner string, balance decimal(18,2), at timestamp, note string"
      And the dead letters of accounts are read again
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 11.00   |
        | 2       | bea   | 22.00   |
        | 3       | cat   | 30.00   |

    Scenario: For a sink that identifies rows by their key, the load is shown immediately
      Given the setting pipelines.accounts.mode = "upsert"
      When these rows arrive at account_log
        | kind | account | owner | balance | at                  |
        | -U   | 1       | ann   | 10.00   | 2024-03-01 08:59:59 |
        | +U   | 1       | ann   | 11.00   | 2024-03-01 08:59:59 |
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner | balance |
        | 1       | ann   | 11.00   |
        | 2       | bob   | 20.00   |
        | 3       | cat   | 30.00   |

  Rule: Transactions of a database's changelog count as a whole

    Background:
      Given the deployment accounts.toml
      And the setting sources.account_log.format = "maxwell-json"
      And the setting sources.account_log.tables = ["bank.accounts"]
      And the setting sources.account_log.schema = "account bigint, owner string, balance decimal(18,2), pos bigint, at timestamp"
      And the setting sources.account_log.metadata = { pos = "log_position", at = "commit_time" }
      And the setting sources.account_log.row_kind is taken out
      And a chunk of accounts
        | account | owner | balance | pos |
        | 1       | ann   | 10.00   | 100 |
        | 2       | bob   | 20.00   | 100 |

    Scenario: An incomplete transaction does not count
      When these lines arrive at account_log
        """
        {"database":"bank","table":"accounts","type":"update","ts":1709283590,"xid":6,"commit":true,"position":"binlog.000001:190","data":{"account":2,"owner":"bea","balance":20},"old":{"owner":"bob"}}
        {"database":"bank","table":"accounts","type":"update","ts":1709283600,"xid":7,"xoffset":0,"position":"binlog.000001:200","data":{"account":1,"owner":"ann","balance":4},"old":{"balance":10}}
        """
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | balance |
        | 1       | 10.00   |
        | 2       | 20.00   |
      When these lines arrive at account_log
        """
        {"database":"bank","table":"accounts","type":"update","ts":1709283600,"xid":7,"commit":true,"position":"binlog.000001:210","data":{"account":2,"owner":"bob","balance":26},"old":{"balance":20}}
        """
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | balance |
        | 1       | 4.00    |
        | 2       | 26.00   |

    Scenario: A change of the table's definition, with a time in milliseconds, makes no row and no dead letter
      When these lines arrive at account_log
        """
        {"type":"table-alter","database":"bank","table":"accounts","old":{"columns":[]},"def":{"columns":[]},"ts":1709283580123,"sql":"ALTER TABLE accounts ADD note text","position":"binlog.000001:150"}
        {"database":"bank","table":"accounts","type":"update","ts":1709283590,"xid":6,"commit":true,"position":"binlog.000001:190","data":{"account":2,"owner":"bea","balance":20},"old":{"owner":"bob"}}
        """
      And all pipelines run until idle
      Then accounts.rows shows exactly
        | account | owner |
        | 1       | ann   |
        | 2       | bea   |
      And the dead letters of accounts are exactly
        | reason |

    Scenario: All rows of a transaction count from its commit
      When these lines arrive at account_log
        """
        {"database":"bank","table":"accounts","type":"update","ts":1709283590,"xid":6,"commit":true,"position":"binlog.000001:190","data":{"account":2,"owner":"bea","balance":20},"old":{"owner":"bob"}}
        """
      And these lines arrive at account_log
        """
        {"database":"bank","table":"accounts","type":"update","ts":1709283600,"xid":7,"xoffset":0,"position":"binlog.000001:200","data":{"account":1,"owner":"ann","balance":4},"old":{"balance":10}}
        {"database":"bank","table":"accounts","type":"update","ts":1709283660,"xid":7,"commit":true,"position":"binlog.000001:210","data":{"account":2,"owner":"bob","balance":26},"old":{"balance":20}}
        {"database":"bank","table":"accounts","type":"insert","ts":1709283720,"xid":8,"commit":true,"position":"binlog.000001:220","data":{"account":3,"owner":"cat","balance":30}}
        """
      And all pipelines run until idle
      Then accounts.rows as of 2024-03-01 09:00:30 shows exactly
        | account | balance |
        | 1       | 10.00   |
        | 2       | 20.00   |
      And accounts.rows as of 2024-03-01 09:01:30 shows exactly
        | account | balance |
        | 1       | 4.00    |
        | 2       | 26.00   |
