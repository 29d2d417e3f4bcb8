Feature: Tables in Parquet folders outlive the process

  Scenario: After a run that dies the next one completes the epoch
    Given the deployment
      """
      [sources.visits]
      kind = "files"
      path = "in"
      schema = "page string, visit bigint, at timestamp"

      [pipelines.visit_rank]
      service = "ranking"
      source = "visits"
      group = ["page"]
      id = ["visit"]
      order_by = "at"
      """
    And an epoch of visits brings
      | page | visit | at               |
      | home | 1     | 2024-03-01 09:00 |
      | home | 2     | 2024-03-02 09:00 |
    When these rows arrive at visits
      | page | visit | at               |
      | home | 3     | 2024-03-01 08:00 |
    And visit_rank crashes after the first commit
    Then visit_rank.ranks shows exactly
      | visit | rank |
      | 1     | 1    |
      | 2     | 2    |
    When visit_rank runs until idle
    Then visit_rank.ranks shows exactly
      | visit | rank |
      | 3     | 1    |
      | 1     | 2    |
      | 2     | 3    |
