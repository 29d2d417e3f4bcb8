Feature: Cumulate windows
  Today's page views and visitors, a point a minute: a curve that never dips and is drawn the same again.
  At every step that the watermark passes, each group has its tick: what the window has come to by then.

  Background:
    Given the deployment views.toml

  @core
  Scenario: The day so far, a point a minute
    When an epoch of views brings
      | at                   | page | user |
      | 2024-03-01T00:00:10Z | a    | ann  |
      | 2024-03-01T00:00:40Z | b    | ann  |
      | 2024-03-01T00:01:05Z | a    | bob  |
    And an epoch of views brings
      | at                   | page | user |
      | 2024-03-01T00:01:50Z | a    | ann  |
      | 2024-03-01T00:03:00Z | b    | cat  |
    Then page_views.ticks shows exactly
      | window_start         | tick                 | grouping | page | pv | uv | revision |
      | 2024-03-01T00:00:00Z | 2024-03-01T00:01:00Z | page     | a    | 1  | 1  | 0        |
      | 2024-03-01T00:00:00Z | 2024-03-01T00:01:00Z | page     | b    | 1  | 1  | 0        |
      | 2024-03-01T00:00:00Z | 2024-03-01T00:01:00Z | ""       |      | 2  | 1  | 0        |
      | 2024-03-01T00:00:00Z | 2024-03-01T00:02:00Z | page     | a    | 3  | 2  | 0        |
      | 2024-03-01T00:00:00Z | 2024-03-01T00:02:00Z | ""       |      | 4  | 2  | 0        |
