Feature: The past is given up as asked, and never under a reader's eyes
  Publications stay readable for as long as the retention says, and longer for a reader that holds a lease. What is gone
  is told to be gone before any row is read.

  Background:
    Given contracts with a project, a contract, a sign_time and an amount
    And they are ranked by sign_time within each project, in segments of 1d
    And the view ranks is materialized
    And an epoch has brought
      | project | contract | sign_time        |
      | 1       | 11       | 2024-03-01 09:00 |
      | 1       | 12       | 2024-03-02 09:00 |

  @core
  Scenario: A leased publication is read unchanged while epochs, compaction and expiry pass
    Given a reader leases the newest publication
    And a reader holds the ranks
    And the last 1 publications are retained
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the tables are compacted
    And the past is given up
    And an epoch brings
      | project | contract | sign_time        |
      | 1       | 12       | 2024-03-03 09:00 |
      | 1       | 14       | 2024-03-02 09:00 |
    And the tables are compacted
    And the past is given up
    Then the reader still sees
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And the ranks as known at epoch 0 are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |
    And the ranks as known at epoch 1 have expired
    And the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 14       | 3    |
      | 1       | 12       | 4    |
    When the reader gives its lease back
    And the past is given up
    Then the ranks as known at epoch 0 have expired

  Scenario: Without a retention nothing is given up
    When an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the past is given up
    Then the ranks as known at epoch 0 are
      | project | contract | rank |
      | 1       | 11       | 1    |
      | 1       | 12       | 2    |

  Scenario: A run goes on where an expiry has left the tables
    Given the last 1 publications are retained
    When the run dies after the first commit while an epoch brings
      | project | contract | sign_time        |
      | 1       | 13       | 2024-03-01 08:00 |
    And the past is given up
    And a new run goes on
    And the past is given up
    Then the ranks are
      | project | contract | rank |
      | 1       | 13       | 1    |
      | 1       | 11       | 2    |
      | 1       | 12       | 3    |
    And the ranks as known at epoch 0 have expired
