Feature: Every epoch happens exactly once
  A crash at any point, a lost checkpoint or a second writer never loses a row, counts one twice, or shows half an epoch.

  Background:
    Given contracts with a project, a contract, a sign_time and an amount
    And they are ranked by sign_time within each project, in segments of 1d
    And an epoch has brought
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |

  @core
  Scenario Outline: A crash <moment> is made good by the next run
    When the run dies <moment> while an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    When a new run goes on
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And 2 epochs are published

    Examples:
      | moment                  |
      | before the first commit |
      | after the first commit  |
      | before the publication  |

  Scenario: An epoch that was published before the run died is not done again
    When the run dies after the publication while an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And a new run goes on
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And 2 epochs are published

  @core
  Scenario: More rows have come before the next run, and nothing but the tables tells where the last one stood
    When the run dies after the first commit while an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the source receives
      | project | contract | sign_time        |
      | 1       | 14       | 2024-03-03 08:00 |
    And a new run goes on
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
      | 1       | 14       | 4    |
    And 3 epochs are published

  @core
  Scenario: A second writer is turned away and damages nothing
    Given a second run has opened the pipeline
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the second run tries an epoch of its own
    Then the second run fails with EpochConflict
    And the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  Scenario: A passing fault is tried again
    When the store cannot be reached once while an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |

  @core
  Scenario: A reader keeps what it has while epochs and compaction pass
    Given a reader holds the ranks
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the tables are compacted
    Then the reader still sees
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
