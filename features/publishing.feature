@kafka
Feature: A view's changes are published to a topic
  A pipeline can publish the changes of a view to a Kafka topic: each epoch as a whole, in order, and once. A reader of the
  topic, another pipeline for example, is then as exact as the view.

  Background:
    Given the deployment contracts.toml
    And the setting sources.contracts.row_kind = "kind"
    And the setting sources.contracts.schema = "project bigint, contract bigint, sign_time timestamp, kind string"

  Scenario: The topic has the inserted, the updated and the deleted rows
    Given the ranks are published to a topic
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
      | +I   | 1       | 12       | 2024-03-02 09:00 |
    When an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 13       | 2024-03-01 08:00 |
      | -D   |         | 12       |                  |
    Then the topic has these records
      | row_kind | contract | rank | sign_time            |
      | +I       | 11       | 1    | 2024-03-01T09:00:00Z |
      | +I       | 12       | 2    | 2024-03-02T09:00:00Z |
      | +I       | 13       | 1    | 2024-03-01T08:00:00Z |
      | -U       | 11       | 1    | 2024-03-01T09:00:00Z |
      | +U       | 11       | 2    | 2024-03-01T09:00:00Z |
      | -D       | 12       | 2    | 2024-03-02T09:00:00Z |
    And a consumer of the topic has these rows
      | contract | rank |
      | 13       | 1    |
      | 11       | 2    |

  Scenario Outline: A run that dies <moment> loses nothing and publishes nothing twice
    Given the ranks are published to a topic
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
      | +I   | 1       | 12       | 2024-03-02 09:00 |
    When these rows arrive at contracts
      | kind | project | contract | sign_time        |
      | +I   | 1       | 13       | 2024-03-01 08:00 |
    And contract_rank crashes <moment>
    And these rows arrive at contracts
      | kind | project | contract | sign_time        |
      | +I   | 1       | 14       | 2024-02-01 08:00 |
    And contract_rank runs until idle
    Then contract_rank has published 3 epochs
    And a consumer of the topic has these rows
      | contract | rank |
      | 14       | 1    |
      | 13       | 2    |
      | 11       | 3    |
      | 12       | 4    |
    And the topic has these records
      | row_kind | contract | rank |
      | +I       | 11       | 1    |
      | +I       | 12       | 2    |
      | +I       | 13       | 1    |
      | -U       | 11       | 1    |
      | +U       | 11       | 2    |
      | -U       | 12       | 2    |
      | +U       | 12       | 3    |
      | +I       | 14       | 1    |
      | -U       | 13       | 1    |
      | +U       | 13       | 2    |
      | -U       | 11       | 2    |
      | +U       | 11       | 3    |
      | -U       | 12       | 3    |
      | +U       | 12       | 4    |

    Examples:
      | moment                            |
      | before the publication            |
      | after the publication             |
      | before it publishes to the topic  |
      | right after the topic's commit    |

  Scenario: If a topic cannot be reached for a moment, the epoch is published later
    Given the ranks are published to a topic
    When these rows arrive at contracts
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
    And contract_rank runs until idle on a topic that cannot be reached once
    Then the topic has these records
      | row_kind | contract | rank |
      | +I       | 11       | 1    |

  Scenario: A topic that is added to a running pipeline starts with all existing rows
    Given an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 12       | 2024-02-02 09:00 |
    When the ranks are published to a topic from now on
    And contract_rank runs until idle
    Then the topic has these records
      | row_kind | contract | rank |
      | +I       | 12       | 1    |
      | +I       | 11       | 2    |

  Scenario: A view that is also stored as a table is published from that table
    Given the setting pipelines.contract_rank.materialize = ["ranks"]
    And the ranks are published to a topic
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
    When an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 12       | 2024-02-02 09:00 |
    Then the topic has these records
      | row_kind | contract | rank |
      | +I       | 11       | 1    |
      | +I       | 12       | 1    |
      | -U       | 11       | 1    |
      | +U       | 11       | 2    |

  Scenario Outline: A topic does not get records that do not fit those in it: <setting>
    Given the ranks are published to a topic
    And an epoch of contracts brings
      | kind | project | contract | sign_time        |
      | +I   | 1       | 11       | 2024-03-01 09:00 |
    When contract_rank publishes to the same topic with <setting>
    And these rows arrive at contracts
      | kind | project | contract | sign_time        |
      | +I   | 1       | 12       | 2024-03-02 09:00 |
    Then running contract_rank fails with SinkChanged: <reason>
    And the topic has these records
      | row_kind | contract | rank |
      | +I       | 11       | 1    |

    Examples:
      | setting                     | reason                                 |
      | view = "top"                | has the records of contract_rank.ranks |
      | format = "upsert-json"      | format json -> upsert-json             |
      | row_kind = "op"             | row_kind row_kind -> op                |
      | rename = { rank = "place" } | field of rank rank -> place            |
