"""Tables that were stored under former settings never go on silently wrong: rows are computed again, or refused."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater
from headwater.app.run.inputs import Pipelines
from headwater.domain.ports import Now, Pace

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
RANKED = """
[backend]
name = "delta"
engine = "local"
path = "{folder}/lake"
[sources.events]
kind = "files"
path = "{folder}/in"
format = "json"
schema = "g string, id int, v int"
[pipelines.ranked]
service = "ranking"
source = "events"
group = ["g"]
id = ["id"]
order_by = "v"
segment = "10"
offset = "0"
"""
VIEWS = """
[pipelines.seen]
service = "materialized_view"
inputs = {{ r = "ranked.{view}" }}
key = ["id"]
sql = "SELECT id, rank FROM r"
[pipelines.shown]
service = "snapshots"
inputs = {{ r = "ranked.{view}" }}
every = "1s"
[pipelines.shown.tables]
best = "SELECT id, rank FROM r"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    arrive(tmp_path, 1, ("a", 1, 10), ("a", 2, 20), ("a", 3, 30))
    return tmp_path


def arrive(folder: Path, number: int, *rows: tuple[str, int, int]) -> None:
    lines = (json.dumps(dict(zip(("g", "id", "v"), row, strict=True))) for row in rows)
    (folder / "in" / f"{number}.json").write_text("".join(f"{line}\n" for line in lines))


def ranks(folder: Path, text: str, *views: str, only: list[str] | None = None) -> list[dict[int, int]]:
    """Run a deployment, and return the rank of each id in these views."""
    with Headwater.from_text(text.replace("{folder}", str(folder))) as headwater:
        headwater.run(only, until_idle=True)
        return [dict(headwater.view(view).select("id", "rank").rows()) for view in views]


def stored(folder: Path, table: str) -> dict[int, int]:
    import polars as pl

    return dict(pl.read_delta(str(folder / "lake" / table)).select("id", "rank").rows())


def test_a_stored_view_that_was_not_stored_for_a_while(folder: Path) -> None:
    text = f'{RANKED}materialize = ["ranks"]\n'
    ranks(folder, text)
    arrive(folder, 2, ("a", 4, 5))
    ranks(folder, RANKED)
    arrive(folder, 3, ("a", 5, 25))
    assert ranks(folder, text, "ranked") == [{4: 1, 1: 2, 2: 3, 5: 4, 3: 5}]
    assert stored(folder, "ranked/ranks") == {4: 1, 1: 2, 2: 3, 5: 4, 3: 5}


def test_the_settings_of_a_view_that_others_keep(folder: Path) -> None:
    views = VIEWS.format(view="top")
    kept = f'{RANKED}materialize = ["top"]\ntop = 1\n{views}'
    assert ranks(folder, kept, "seen", "shown.best") == [{1: 1}, {1: 1}]
    arrive(folder, 2, ("b", 4, 5))
    wider = kept.replace("top = 1", "top = 2")
    wanted = {1: 1, 2: 2, 4: 1}
    assert ranks(folder, wider, "ranked.top", "seen", "shown.best") == [wanted, wanted, wanted]
    assert stored(folder, "ranked/top") == wanted


def test_the_settings_of_a_view_whose_source_rests(folder: Path) -> None:
    kept = f"{RANKED}top = 1\n{VIEWS.format(view='top')}"
    for top in (1, 3, 1):
        wanted = {id_: id_ for id_ in range(1, top + 1)}
        assert ranks(folder, kept.replace("top = 1", f"top = {top}"), "seen", "shown.best") == [wanted, wanted]


def test_tables_of_one_version_have_one_setting_of_a_view(folder: Path) -> None:
    (folder / "other").mkdir()
    other = """
[sources.others]
kind = "files"
path = "{folder}/other"
format = "json"
schema = "id int, n int"
[pipelines.others]
service = "wide_table"
key = ["id"]
topics.others = { source = "others", columns = ["n"], sequence = ["id"] }
[pipelines.shown]
service = "snapshots"
inputs = { r = "ranked.top", o = "others.rows" }
every = "1s"
[pipelines.shown.tables]
best = "SELECT id, rank FROM r"
chosen = "SELECT r.id, r.rank FROM r JOIN o ON o.id = r.id"
"""
    for top, wanted in ((1, {1: 1}), (2, {1: 1, 2: 2})):
        (folder / "other" / f"{top}.json").write_text(f'{{"id": {top}}}\n')
        assert ranks(folder, f"{RANKED}top = {top}\n{other}", "shown.best", "shown.chosen") == [wanted, wanted]


def test_an_epoch_that_was_begun_under_former_settings_of_a_view(folder: Path) -> None:
    kept = f"{RANKED}top = 1\n{VIEWS.format(view='top')}".replace("{folder}", str(folder))
    readable = []
    with Headwater.from_text(kept) as headwater:
        headwater.run(["ranked"], until_idle=True)
        begun = [runner.source.plan(None, Now(NOON, Pace.CLOSE)) for runner in headwater.start(["seen", "shown"])]
    for text in (kept, kept.replace("top = 1", "top = 2")):
        with Headwater.from_text(text) as headwater:
            runners = headwater.start(["seen", "shown"])
            readable.append([each.source.readable(plan) for each, plan in zip(runners, begun, strict=True) if plan])
    assert readable == [[True, True], [False, False]]


def test_views_of_earlier_versions_which_did_not_record_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = f"{RANKED}top = 1\n{VIEWS.format(view='top')}"
    with monkeypatch.context() as earlier:
        earlier.setattr(Pipelines, "settings_of", lambda *_: {})
        ranks(folder, kept)
    assert ranks(folder, kept.replace("top = 1", "top = 2"), "seen", "shown.best") == [{1: 1}, {1: 1}]
    arrive(folder, 2, ("b", 4, 5))
    wanted = {1: 1, 2: 2, 4: 1}
    assert ranks(folder, kept.replace("top = 1", "top = 2"), "seen", "shown.best") == [wanted, wanted]


WIDE = """
[backend]
name = "delta"
engine = "local"
path = "{folder}/lake"
[sources.events]
kind = "files"
path = "{folder}/in"
format = "json"
schema = "g string, id int, v int"
[sources.others]
kind = "files"
path = "{folder}/others"
format = "json"
schema = "g string, id int, v int"
[pipelines.wide]
service = "wide_table"
key = ["id"]
materialize = ["completeness"]
topics.event = { source = "events", select = { a = "v" }, sequence = ["v"] }
[pipelines.seen]
service = "materialized_view"
inputs = { c = "wide.completeness" }
key = ["id"]
sql = "SELECT * FROM c"
[pipelines.shown]
service = "snapshots"
inputs = { c = "wide.completeness" }
every = "1s"
[pipelines.shown.tables]
known = "SELECT * FROM c"
"""
MORE = 'topics.other = { source = "others", select = { b = "v" }, sequence = ["v"] }\n[pipelines.seen]'


@pytest.mark.parametrize("case", ["", "of tables of earlier versions", "whose source is empty"])
def test_a_topic_that_is_added_to_a_wide_table(folder: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """It has reported nothing of a key that is there already: that is false, not null, also where it is stored."""
    (folder / "others").mkdir()
    text, views = WIDE.replace("{folder}", str(folder)), ["wide.completeness", "seen", "shown.known"]
    with monkeypatch.context() as earlier:
        if "earlier" in case:
            earlier.setattr(Pipelines, "settings_of", lambda *_: {})
        with Headwater.from_text(text) as headwater:
            headwater.run(until_idle=True)
    with Headwater.from_text(text) as headwater:
        headwater.run(until_idle=True)
        assert [headwater.epoch(name) for name in ("wide", "seen", "shown")] == [0, 0, 0]  # nothing is computed again
    wanted = {1: (False, False), 2: (False, False), 3: (False, False)}
    if "empty" not in case:
        (folder / "others" / "1.json").write_text('{"g": "a", "id": 2, "v": 1}\n')
        wanted[2] = (True, False)
    with Headwater.from_text(text.replace("[pipelines.seen]", MORE)) as headwater:
        headwater.run(until_idle=True)
        read = [headwater.view(view) for view in views]
        if "empty" not in case:  # else it is written with the next epoch
            read.append(headwater.snapshot("wide").read("wide.completeness").to_native().collect())
        shown = [each.select("id", "other_reported", "other_deleted").rows() for each in read]
    assert [{id_: tuple(told) for id_, *told in rows} for rows in shown] == [wanted] * len(read)


def test_an_input_that_was_built_again(folder: Path) -> None:
    text = RANKED + VIEWS.format(view="ranks")
    wanted = {1: 1, 2: 2, 3: 3}
    assert ranks(folder, text, "seen", "shown.best") == [wanted, wanted]
    shutil.rmtree(folder / "lake" / "ranked")
    turned = text.replace('"v"', '"-v"')
    ranks(folder, turned, only=["ranked"])  # it reaches the same epoch before its readers look
    assert ranks(folder, turned, "seen", "shown.best") == [{3: 1, 2: 2, 1: 3}] * 2


def test_a_source_of_another_kind(folder: Path) -> None:
    from headwater.domain.errors import SourceChanged

    ranks(folder, RANKED)
    text = RANKED.replace('kind = "files"\npath = "{folder}/in"\nformat = "json"', 'kind = "stream"')
    with pytest.raises(SourceChanged, match="a source of another kind until now"):
        ranks(folder, text)


@pytest.mark.parametrize(
    ("service", "old", "new", "why"),
    [
        (
            'service = "retraction"\nupdated_at = "t"\nidentity = "none"\ngroup = ["g"]\n'
            'measures = { n = { measure = "count(*)", where = "v > \'5\'" } }\n',
            "v string",
            "v int",
            "types of columns: v string -> int",
        ),
        (
            'service = "bulk_merge"\nkey = ["id"]\ncolumns = ["g"]\n',
            'event_time = "t"',
            'event_time = "t2"',
            "event_time t -> t2",
        ),
    ],
)
def test_values_that_later_rows_take_back(folder: Path, service: str, old: str, new: str, why: str) -> None:
    from headwater.domain.errors import ConfigError

    row: dict[str, Any] = {"op": "+I", "id": 1, "g": "a", "v": "10", "t": "2024-03-01T00:00:00Z"}
    (folder / "in" / "1.json").write_text(json.dumps(row | {"t2": row["t"]}))
    source = RANKED[: RANKED.index("schema")] + (
        'schema = "op string, id int, g string, v string, t timestamp, t2 timestamp"\nrow_kind = "op"\n'
        'event_time = "t"\n[pipelines.p]\n'
    )
    reads = 'source = "events"\n'
    if "bulk" in service:
        (folder / "bulk").mkdir()
        reads = 'changelog = "events"\nbulk = { path = "{folder}/bulk", format = "json", search_ts = "2024-03-01T00:00:00Z" }\n'
    text = (source + service + reads).replace("{folder}", str(folder))
    with Headwater.from_text(text) as headwater:
        headwater.run(until_idle=True)
    with Headwater.from_text(text.replace(old, new)) as headwater, pytest.raises(ConfigError, match=why):
        headwater.run(until_idle=True)


@pytest.mark.parametrize(
    ("service", "old", "new"),
    [
        ('service = "cumulate"\nstep = "1h"\nmeasures = { n = "approx_count_distinct(x)" }\n', "x decimal(9,1)", "decimal(9,3)"),
        ('service = "cumulate"\nstep = "1h"\nmeasures = { n = "count(distinct CAST(x AS string))" }\n', "x decimal(9,1)", "decimal(9,3)"),
        ('service = "cumulate"\nstep = "1h"\nmeasures.n = { measure = "count(*)", where = "CAST(x AS string) = \'1.5\'" }\n', "x decimal(9,1)", "decimal(9,3)"),
        ('service = "retraction"\ntime_zone = "Asia/Tokyo"\nupdated_at = "u"\nmeasures = { n = "count(*)" }\n', "u timestamp", "timestamp_ntz"),
    ],
    ids=["the hash of an estimate", "a distinct text", "a condition", "the day of a change"],
)  # fmt: skip
def test_types_that_no_table_shows(folder: Path, service: str, old: str, new: str) -> None:
    from headwater.domain.errors import ConfigError

    row = {"x": 1.5, "u": "2024-03-01 20:00:00", "t": "2024-03-01T00:00:00Z"}
    (folder / "in" / "1.json").write_text(json.dumps(row))
    source = RANKED[: RANKED.index("schema")].replace("{folder}", str(folder))
    text = (
        f'{source}schema = "x decimal(9,1), u timestamp, t timestamp"\nevent_time = "t"\n'
        f'[pipelines.p]\nsource = "events"\n{service}'
    )
    name, type_ = old.split()
    for schema in (text, text.replace(", t timestamp", ", t timestamp, more int")):
        with Headwater.from_text(schema) as headwater:
            headwater.run(until_idle=True)
    edited = text.replace(old, f"{name} {new}")
    with Headwater.from_text(edited) as headwater, pytest.raises(ConfigError) as refused:
        headwater.run(until_idle=True)
    assert f"other types of columns: {name} {type_} -> {new};" in str(refused.value)
