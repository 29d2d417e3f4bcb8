"""Up to which event time a version is complete, after input that is behind was added: what waits for it goes on waiting."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from headwater import Headwater, Label
from headwater.domain.errors import WaitTimeout

if TYPE_CHECKING:
    from pathlib import Path

NINE, TEN, ELEVEN = (f"2024-03-01T{hour:02}:00:00Z" for hour in (9, 10, 11))
SOURCES = """
[backend]
name = "delta"
engine = "local"
path = "{folder}/lake"
[sources.a]
kind = "files"
path = "{folder}/a"
schema = "id bigint, v bigint, at timestamp"
event_time = "at"
[sources.b]
kind = "files"
path = "{folder}/b"
schema = "id bigint, w bigint, at timestamp"
event_time = "at"
"""
TOTALS = "".join(
    f"""
[pipelines.of_{each}]
service = "retraction"
source = "{each}"
group = ["id"]
updated_at = "at"
measures = {{{{ n = "count(*)" }}}}
identity = "none"
"""
    for each in "ab"
)
STAGES = (
    TOTALS
    + """
[pipelines.first]
service = "snapshots"
inputs = {{ {inputs} }}
every = "1s"
[pipelines.first.tables]
t = "{query}"
[pipelines.second]
service = "snapshots"
inputs = {{ t = "first.t" }}
every = "1s"
[pipelines.second.tables]
t = "SELECT * FROM t"
[pipelines.newest]
service = "materialized_view"
align = "newest"
inputs = {{ {inputs} }}
key = ["id"]
sql = "SELECT id, sum(n) AS n FROM ({query}) x GROUP BY id"
"""
)
WIDE = """
[pipelines.wide]
service = "wide_table"
key = ["id"]
[pipelines.wide.topics.a]
source = "a"
columns = ["v"]
sequence = ["at"]
"""
MORE_TOPICS = """
[pipelines.wide.topics.b]
source = "b"
columns = ["w"]
sequence = ["at"]
"""
VIEW = """
[pipelines.seen]
service = "materialized_view"
align = "at"
inputs = {{ w = "wide.rows" }}
key = ["id"]
sql = "SELECT id, v FROM w"
"""


def arrive(folder: Path, source: str, number: int, at: str) -> None:
    (folder / source).mkdir(exist_ok=True)
    (folder / source / f"{at[11:13]}-{number}.json").write_text(
        json.dumps({"id": number, "v": number, "w": number, "at": at})
    )


def opened(folder: Path, text: str, **names: str) -> Headwater:
    headwater = Headwater.from_text((SOURCES + text).format(folder=folder, **names), report=lambda _: None)
    headwater.run(until_idle=True)
    return headwater


def reaches(headwater: Headwater, pipeline: str, time: str) -> bool:
    try:
        headwater.wait_for(pipeline, time, timeout=timedelta(0))
    except WaitTimeout:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    arrive(tmp_path, "a", 1, TEN)
    arrive(tmp_path, "b", 2, NINE)
    return tmp_path


PIPELINES = ("first", "second", "newest")


def stages(folder: Path, *inputs: str) -> Headwater:
    query = " UNION ALL ".join(f"SELECT id, n FROM {each}" for each in inputs)
    return opened(folder, STAGES, inputs=", ".join(f'{each} = "of_{each}.totals"' for each in inputs), query=query)


def test_an_added_input_takes_back_what_a_stage_and_a_view_have_reached(folder: Path) -> None:
    with stages(folder, "a") as headwater:
        assert all(reaches(headwater, each, TEN) for each in PIPELINES)
    with stages(folder, "a", "b") as headwater:
        for each in PIPELINES:
            assert not reaches(headwater, each, TEN)
            assert reaches(headwater, each, NINE)
            assert headwater.pipeline(each).snapshot(Label.parse(NINE)).publication == headwater.wait_for(each, NINE)
        shown = {each.pipeline: row[3] for each, row in zip(headwater.status(), headwater.status().rows, strict=True)}
        assert [shown[each] for each in PIPELINES] == [NINE] * 3
        arrive(folder, "b", 2, TEN)
        headwater.run(until_idle=True)
        assert all(reaches(headwater, each, TEN) for each in PIPELINES)


def test_an_added_topic_takes_back_what_a_wide_table_has_reached(folder: Path) -> None:
    """A view over it does not go back: it waits until the topic has come to where it is."""
    with opened(folder, WIDE + VIEW) as headwater:
        assert reaches(headwater, "wide", TEN)
    with opened(folder, WIDE + MORE_TOPICS + VIEW) as headwater:
        assert not reaches(headwater, "wide", TEN)
        assert reaches(headwater, "wide", NINE)
        arrive(folder, "a", 3, ELEVEN)
        headwater.run(until_idle=True)
        assert sorted(headwater.view("seen").rows()) == [(1, 1)]
        assert any("already shows" in text for each in headwater.status() for text in each.alarms)
        arrive(folder, "b", 3, ELEVEN)
        headwater.run(until_idle=True)
        assert reaches(headwater, "wide", ELEVEN)
        assert sorted(headwater.view("seen").rows()) == [(1, 1), (2, None), (3, 3)]
