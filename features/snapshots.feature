Feature: A batch stage publishes versions, and readers finish on the version they began with
  A version is the whole new content of one or several tables, published at the same time, and computed from the inputs as
  of one time. Its label is the watermark of its inputs. If no input has changed, there is no new version.

  Rule: A version is made of other pipelines' publications and of plain tables

    Background:
      Given the deployment snapshots.toml
      And the file tags.csv
        """
        project,tag
        1,red
        2,blue
        3,blue
        """

    @core @lake
    Scenario: All tables of a version come from one publication of each input
      When these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 11       | 2024-03-01 09:00 |
        | 2       | 12       | 2024-03-02 09:00 |
      And all pipelines run until idle
      And these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 13       | 2024-03-03 09:00 |
      And all pipelines run until idle
      Then project_dim.projects shows exactly
        | project | tag  | contracts |
        | 1       | red  | 2         |
        | 2       | blue | 1         |
      And project_dim.tags shows exactly
        | tag  | projects |
        | red  | 1        |
        | blue | 2        |
      And project_dim.projects as known at epoch 0 shows exactly
        | project | tag  | contracts |
        | 1       | red  | 1         |
        | 2       | blue | 1         |
      And project_dim.markers shows exactly
        | version | label                |
        | 0       | 2024-03-02T09:00:00Z |
        | 1       | 2024-03-03T09:00:00Z |

    Scenario: The watermark decides when a version is due
      Given the setting pipelines.project_dim.when = "watermark"
      And the setting pipelines.project_dim.every = "1d"
      When these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 11       | 2024-03-01 09:00 |
      And these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 12       | 2024-03-01 10:00 |
      And these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 13       | 2024-03-04 08:00 |
      And all pipelines run until idle
      Then project_dim.markers shows exactly
        | version | label                |
        | 0       | 2024-03-01T09:00:00Z |
        | 1       | 2024-03-04T08:00:00Z |
      And project_dim.projects as known at epoch 0 shows exactly
        | project | tag | contracts |
        | 1       | red | 1         |
      And project_dim.projects shows exactly
        | project | tag | contracts |
        | 1       | red | 3         |

    Scenario: No version is made before every input has published
      When project_dim runs one epoch
      Then project_dim has published 0 epochs
      When these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 11       | 2024-03-01 09:00 |
      And contract_rank runs until idle
      And project_dim runs one epoch
      Then project_dim has published 1 epoch

    Scenario: An unfinished version whose inputs have expired is rolled back, and made from the current inputs
      Given the setting backend.retain = { versions = 1 }
      When these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 11       | 2024-03-01 09:00 |
      And contract_rank runs until idle
      And project_dim crashes after the first commit
      And these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 12       | 2024-03-02 09:00 |
      And contract_rank runs until idle
      And contract_rank expires its old versions
      And project_dim runs until idle
      Then project_dim.projects shows exactly
        | project | tag | contracts |
        | 1       | red | 2         |
      And project_dim.markers shows exactly
        | version | label                |
        | 0       | 2024-03-02T09:00:00Z |

    Scenario: Without a watermark there is no label
      Given the setting sources.contracts.event_time is taken out
      When these rows arrive at contracts
        | project | contract | sign_time        |
        | 1       | 11       | 2024-03-01 09:00 |
      And all pipelines run until idle
      Then project_dim.markers shows exactly
        | version | label |
        | 0       |       |

  Rule: A version is published once, and as a whole

    Background:
      Given the deployment tags.toml
      And the file tags.csv
        """
        project,tag
        1,red
        2,blue
        """
      And tagged runs until idle

    Scenario: If no input has changed, a run makes no second version
      When tagged runs until idle
      And tagged runs until idle
      Then tagged has published 1 epoch
      When the file tags.csv is
        """
        project,tag
        1,red
        """
      And tagged runs until idle
      Then tagged has published 2 epochs

    @core @lake @faults
    Scenario Outline: After a crash <moment> all tables show the previous version until the next run
      When the file tags.csv is
        """
        project,tag
        1,red
        2,red
        """
      And tagged crashes <moment>
      Then tagged.projects shows exactly
        | project | tag  |
        | 1       | red  |
        | 2       | blue |
      And tagged.counts shows exactly
        | tag  | projects |
        | red  | 1        |
        | blue | 1        |
      When tagged runs until idle
      Then tagged.projects shows exactly
        | project | tag |
        | 1       | red |
        | 2       | red |
      And tagged.counts shows exactly
        | tag | projects |
        | red | 2        |
      And tagged has published 2 epochs

      Examples:
        | moment                  |
        | before the first commit |
        | after the first commit  |
        | before the publication  |

    Scenario: A version that was published before the run died is not made again
      When the file tags.csv is
        """
        project,tag
        1,red
        """
      And tagged crashes after the publication
      And tagged runs until idle
      Then tagged has published 2 epochs
      And tagged.projects shows exactly
        | project | tag |
        | 1       | red |

    Scenario Outline: A version never mixes <what> from before a crash and after it
      When the file tags.csv is
        """
        project,tag
        1,green
        """
      And tagged crashes after the first commit
      And <change>
      And tagged runs until idle
      Then tagged.projects shows exactly
        | project | tag  |
        | 1       | blue |
      And tagged.counts shows exactly
        | tag  | projects |
        | blue | 1        |
      And tagged has published 2 epochs

      Examples:
        | what        | change                        |
        | the table   | the tags are all blue         |
        | the queries | the queries call all tags blue |

    Scenario: A version may have no rows
      When the file tags.csv is
        """
        project,tag
        """
      And tagged runs until idle
      Then tagged.projects shows nothing
      And tagged.counts shows nothing
      And tagged.projects as known at epoch 0 shows exactly
        | project | tag  |
        | 1       | red  |
        | 2       | blue |

    Scenario: A version may have other columns than the one before
      When the setting pipelines.tagged.tables.projects = "SELECT cast(project AS int) AS number, project, length(tag) AS letters FROM tags"
      And tagged runs until idle
      Then tagged.projects shows exactly
        | number | project | letters |
        | 1      | 1       | 3       |
        | 2      | 2       | 4       |
      And tagged.projects as known at epoch 0 shows exactly
        | project | tag  |
        | 1       | red  |
        | 2       | blue |
      And tagged has published 2 epochs

    Scenario: A column may have the name of one that other tables have hidden on disk
      When the setting pipelines.tagged.tables.projects = "SELECT project, tag AS _op, length(tag) AS _sequence FROM tags"
      And tagged runs until idle
      Then tagged.projects shows exactly
        | project | _op  | _sequence |
        | 1       | red  | 3         |
        | 2       | blue | 4         |

    Scenario: A column with the name of one that differences have is refused
      When the setting pipelines.tagged.tables.projects = "SELECT project, tag AS _row_kind FROM tags"
      Then tagged cannot run: table 'projects': column '_row_kind' has the name of one that Headwater adds

    Scenario Outline: A version whose key does not identify each row is not published: <what>
      When the file tags.csv is
        """
        project,tag
        1,red
        <key>,blue
        """
      Then running tagged fails with BadInput
      And tagged.projects shows exactly
        | project | tag  |
        | 1       | red  |
        | 2       | blue |
      When the file tags.csv is
        """
        project,tag
        3,red
        """
      And tagged runs until idle
      Then tagged.projects shows exactly
        | project | tag |
        | 3       | red |
      And tagged has published 2 epochs

      Examples:
        | what     | key |
        | repeated | 1   |
        | null     |     |

    Scenario: A second run that another run has overtaken publishes nothing
      Given a second run has opened tagged
      When the file tags.csv is
        """
        project,tag
        1,red
        """
      And tagged runs until idle
      Then the second run fails with EpochConflict
      And tagged.projects shows exactly
        | project | tag |
        | 1       | red |

  Rule: Readers finish on the version they began with

    Background:
      Given the deployment tags.toml
      And the setting pipelines.tagged.retain = { versions = 2 }
      And the file tags.csv
        """
        project,tag
        1,red
        """
      And tagged runs until idle

    @core @lake @faults
    Scenario: Overwrites and expiry do not affect a reader with a lease
      Given a reader leases tagged
      And a reader holds tagged.projects
      When the file tags.csv is
        """
        project,tag
        1,blue
        """
      And tagged runs until idle
      And the file tags.csv is
        """
        project,tag
        1,green
        """
      And tagged runs until idle
      And the file tags.csv is
        """
        project,tag
        1,white
        """
      And tagged runs until idle
      Then the reader still sees exactly
        | project | tag |
        | 1       | red |
      And tagged.projects as known at epoch 0 shows exactly
        | project | tag |
        | 1       | red |
      And tagged.projects as known at epoch 1 has expired
      And tagged.projects as known at epoch 2 shows exactly
        | project | tag   |
        | 1       | green |
      When the reader releases its lease
      And tagged expires its old versions
      Then tagged.projects as known at epoch 0 has expired

    Scenario: The retention of a version counts from when it was superseded, not from when it was made
      Given the setting pipelines.tagged.retain = { duration = "1h" }
      When 1d passes
      And the file tags.csv is
        """
        project,tag
        1,blue
        """
      And tagged runs until idle
      And tagged expires its old versions
      Then tagged.projects as known at epoch 0 shows exactly
        | project | tag |
        | 1       | red |
      When 1d passes
      And tagged expires its old versions
      Then tagged.projects as known at epoch 0 has expired

  Rule: The clock decides when a version is due

    Background:
      Given the deployment tags.toml
      And the file tags.csv
        """
        project,tag
        1,red
        """
      And the clock shows 2024-01-01 12:01
      And tagged runs one epoch

    Scenario: At multiples of the interval
      When the file tags.csv is
        """
        project,tag
        1,blue
        """
      And the clock shows 2024-01-01 12:14
      And tagged runs one epoch
      Then tagged has published 1 epoch
      When the clock shows 2024-01-01 12:15
      And tagged runs one epoch
      Then tagged has published 2 epochs

    Scenario: If the clock steps back, no version comes early, and none is delayed for long
      When the file tags.csv is
        """
        project,tag
        1,blue
        """
      And the clock shows 2024-01-01 11:59
      And tagged runs one epoch
      Then tagged has published 1 epoch
      When the clock shows 2024-01-01 12:15
      And tagged runs one epoch
      Then tagged has published 2 epochs
      When the file tags.csv is
        """
        project,tag
        1,green
        """
      And the clock shows 2023-12-31 12:00
      And tagged runs one epoch
      Then tagged has published 3 epochs
      And tagged.projects shows exactly
        | project | tag   |
        | 1       | green |
