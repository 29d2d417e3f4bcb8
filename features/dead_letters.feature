Feature: Records that could not be used are kept, and read again after a fix
  A dead letter is removed by the publication that adds its rows, whatever dies on the way. A dead letter that fails again
  stays, with its new reason.

  Background:
    # The column kind says what a contract is about. It is taken for what happens to the contract, which is a mistake.
    Given the deployment contracts.toml
    And the setting sources.contracts.schema = "project bigint, contract bigint, sign_time timestamp, kind string"
    And the setting sources.contracts.row_kind = "kind"
    And these lines arrive at contracts
      """
      {"project": 1, "contract": 11, "sign_time": "2024-03-01T09:00:00Z", "kind": "c"}
      {"project": 1, "contract": 12, "sign_time": "2024-03-02T09:00:00Z", "kind": "lease"}
      {"project": 1, "contract": 13, "sign_time": "2024-03-01T08:00:00Z", "kind": "sale"}
      {"contract": 14, "sign_time": "2024-03-01T07:00:00Z", "kind": "c"}
      {"project": 1, "contract": 15
      """
    And contract_rank runs until idle

  @core
  Scenario: Records that can be used after the fix are added, and the others stay with their reason
    When the setting sources.contracts.row_kind is taken out
    And the dead letters of contract_rank are read again
    Then contract_rank.ranks shows exactly
      | project | contract | kind  | rank |
      | 1       | 13       | sale  | 1    |
      | 1       | 11       |       | 2    |
      | 1       | 12       | lease | 3    |
    And the dead letters of contract_rank are exactly
      | epoch | format | row_kind | reason                            | raw                                                                |
      | 1     | json   | +I       | group column project is null      | {"contract": 14, "sign_time": "2024-03-01T07:00:00Z", "kind": "c"} |
      | 1     | json   |          | not JSON: Input data was truncated | {"project": 1, "contract": 15                                      |
    And contract_rank has published 2 epochs

  Scenario Outline: A replay that dies <moment> is completed by the next replay, and nothing counts twice
    When the setting sources.contracts.row_kind is taken out
    And reading the dead letters of contract_rank again crashes <moment>
    And these lines arrive at contracts
      """
      {"project": 1, "contract": 16, "sign_time": "2024-03-03T09:00:00Z", "kind": "gift"}
      """
    And contract_rank runs until idle
    And the dead letters of contract_rank are read again
    Then contract_rank.ranks shows exactly
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 16       | 4    |
    And the dead letters of contract_rank are exactly
      | reason                            |
      | group column project is null      |
      | not JSON: Input data was truncated |

    Examples:
      | moment                  |
      | before the first commit |
      | after the first commit  |
      | before the publication  |
      | after the publication   |
