"""A wide table against its oracle, over random records of five topics, cuts, repeats, crashes and a topic added late."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.failing_store import Crash, Fault
from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

from .effort import examples
from .wide_table_oracle import KEY, OWNER, SEEN, TOPICS, Key, Message, Options, Oracle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.epoch.epoch import Publication

_DEPLOYMENT = """
[backend]
name = "memory"
compact_every = 2

[sources.base]
kind = "files"
path = "base"
schema = "kind string, region string, id bigint, name string, at timestamp, seen date"
row_kind = "kind"
event_time = "seen"

[sources.log]
kind = "files"
path = "log"
format = "maxwell-json"
tables = ["shop.log"]
schema = "region string, id bigint, amount decimal(9,2), ver bigint"

[sources.pair]
kind = "files"
path = "pair"
schema = "region string, id bigint, low int, high boolean, day date, run int"

[sources.sparse]
kind = "files"
path = "sparse"
schema = "region string, id bigint, city string, size bigint, seq bigint"

[sources.late]
kind = "files"
path = "late"
schema = "region string, id bigint, tag string, seq bigint"

[pipelines.wide]
service = "wide_table"
key = ["region", "id"]
materialize = [KEPT]

[pipelines.wide.topics.base]
source = "base"
columns = ["name"]
sequence = ["at"]
owner = OWNED
absent = "ABSENT"

[pipelines.wide.topics.log]
source = "log"
select = { twice = "cast(amount * 2 as decimal(10,2))" }
sequence = ["ver"]
absent = "ABSENT"

[pipelines.wide.topics.pair]
source = "pair"
columns = ["low", "high"]
sequence = ["day", "run"]
absent = "ABSENT"
nulls = "NULLS"

[pipelines.wide.topics.sparse]
source = "sparse"
columns = [SPARSE]
sequence = ["seq"]
absent = "ABSENT"
"""
_LATE = """
[pipelines.wide.topics.late]
source = "late"
select = { tag = "upper(tag)" }
where = "tag is null or tag <> 'none'"
sequence = ["seq"]
"""


@frozen
class Turn:
    """Files that arrive at topics, and a run that may die."""

    files: list[tuple[str, list[Message]]]
    fault: Fault | None


@frozen
class Schedule:
    """How the pipeline is told to take records, what happens, and before which turn a column and a topic are added.

    The rows may also be kept as a plain table, and deletes under their days, for longer than any schedule lasts.
    """

    options: Options
    turns: list[Turn]
    added: int
    kept: bool
    remembered: bool


@frozen
class Scale:
    """How much there is at most of each thing in a schedule: turns, files of a topic in a turn, messages of a file."""

    turns: int
    files: int
    messages: int


_LARGE = Scale(turns=4, files=2, messages=5)
_SMALL = Scale(turns=3, files=1, messages=5)
"""Where an epoch takes seconds."""
_NAMES = [topic.name for topic in TOPICS]
_FIRST = {
    "kind": "+I",
    "region": "z",
    "id": 1,
    "name": "zoe",
    "at": f"{SEEN}T10:00:00+00:00",
    "seen": SEEN,
}
_AT = "_at"
_ADDED = ("size",)
"""The column of `sparse` that is added with the topic `late`."""
_MESSAGES = {topic.name: topic.messages for topic in TOPICS}


@st.composite
def faults(draw: st.DrawFn) -> Fault | None:
    """A crash at any commit, or none."""
    if draw(st.integers(0, 2)):
        return None
    return Fault(before=draw(st.booleans()), commit=draw(st.integers(1, 5)), passing=draw(st.booleans()))


@st.composite
def schedules(draw: st.DrawFn, scale: Scale) -> Schedule:
    """Any schedule; topics send again what they have sent before."""
    sent: dict[str, list[Message]] = {name: [] for name in _NAMES}

    def file(name: str) -> tuple[str, list[Message]]:
        messages = draw(st.lists(_MESSAGES[name], min_size=1, max_size=scale.messages))
        if sent[name] and draw(st.booleans()):
            messages += draw(st.lists(st.sampled_from(sent[name]), max_size=2))
        sent[name] += messages
        return name, messages

    def turn() -> Turn:
        brings = {name: draw(st.integers(0, scale.files)) for name in _NAMES}
        return Turn([file(name) for name, files in brings.items() for _ in range(files)], draw(faults()))

    turns = [turn() for _ in range(draw(st.integers(1, scale.turns)))]
    chosen = Options(
        owned=draw(st.sampled_from([True, True, True, False])),
        nulls=draw(st.sampled_from(["overwrite", "keep"])),
        absent=draw(st.sampled_from(["keep", "keep", "null"])),
    )
    added = draw(st.integers(0, scale.turns - 1))
    return Schedule(chosen, turns, added, kept=draw(st.booleans()), remembered=chosen.owned and draw(st.booleans()))


@define(eq=False)
class WideTrial:
    """One pipeline, held against the oracle at every publication."""

    trial: Trial
    schedule: Schedule
    arrived: dict[str, list[list[Message]]] = field(factory=lambda: {name: [] for name in _NAMES})
    added_at: int = 0
    """The first epoch that knows the added column and topic."""

    def run(self) -> None:
        """Take the whole schedule."""
        self.trial.deploy(self._deployment(late=False))
        if self.schedule.remembered:  # otherwise the watermark could be years earlier when a delete is read
            self._feed(OWNER, [_FIRST])
        for number, turn in enumerate(self.schedule.turns):
            if number == self.schedule.added:
                self._add()
            for name, messages in turn.files:
                self._feed(name, messages)
            with suppress(Crash):
                self.trial.run(fault=turn.fault)
        if self.schedule.added >= len(self.schedule.turns):
            self._add()
        self.trial.run()

    def check(self) -> None:
        """Hold what each publication shows against the oracle."""
        oracle, read = Oracle(self.schedule.options), dict.fromkeys(_NAMES, 0)
        publications = self.trial.publications("wide")[::-1]
        epochs = [publication.epoch.number for publication in publications]
        rows, completeness = self._shown("rows", epochs), self._shown("completeness", epochs)
        for publication, epoch in zip(publications, epochs, strict=True):
            for topic in TOPICS:
                until = _files(publication, topic.name)
                for messages in self.arrived[topic.name][read[topic.name] : until]:
                    oracle.take(topic, messages, epoch, _ADDED if epoch < self.added_at else ())
                read[topic.name] = until
            assert rows[epoch] == oracle.rows(), publication.offsets
            assert completeness[epoch] == oracle.completeness(), publication.offsets
        assert read == {name: len(files) for name, files in self.arrived.items()}, "not all was read"
        if publications:
            letters = self.trial.reader.answer("wide.dead_letters").frame
            assert len(letters.select("reason").collect(backend="polars")) == oracle.letters
        if publications and self.schedule.kept:
            _, stored = self.trial.stored("wide.rows")
            assert _by_key(stored.collect(backend="polars").rows(named=True)) == oracle.rows()

    def _feed(self, name: str, messages: list[Message]) -> None:
        self.trial.feed(name, [json.dumps(each) for each in messages])
        self.arrived[name].append(messages)

    def _add(self) -> None:
        self.added_at = len(self.trial.publications("wide"))
        self.trial.deploy(self._deployment(late=True))

    def _deployment(self, *, late: bool) -> str:
        options = self.schedule.options
        text = _DEPLOYMENT + (_LATE if late else "")
        if self.schedule.remembered:
            text = text.replace("materialize", 'tombstones = "365d"\nmaterialize')
        for word, value in {
            "OWNED": str(options.owned).lower(),
            "NULLS": options.nulls,
            "ABSENT": options.absent,
            "KEPT": '"rows"' if self.schedule.kept else "",
            "SPARSE": '"city", "size"' if late else '"city"',
        }.items():
            text = text.replace(word, value)
        return text

    def _shown(self, view: str, epochs: list[int]) -> dict[int, dict[Key, dict[str, Any]]]:
        """What a view shows at each epoch, by key."""
        frames = [
            self.trial.reader.answer(f"wide.{view}", at=epoch).frame.with_columns(nw.lit(epoch).alias(_AT))
            for epoch in epochs
        ]
        rows = nw.concat(frames).collect(backend="polars").rows(named=True) if frames else []
        return {epoch: _by_key(row for row in rows if row[_AT] == epoch) for epoch in epochs}


def _by_key(rows: Iterable[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """Rows by their key, of which none stands twice."""
    found: dict[Key, dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEY)
        assert key not in found, "a key stands twice"
        found[key] = {name: value for name, value in row.items() if name not in (*KEY, _AT)}
    return found


def _files(publication: Publication, topic: str) -> int:
    """How many files of a topic had been read by then."""
    offsets = publication.offsets.get(topic)
    return offsets["count"] if offsets else 0


def _hold(trial: Trial, schedule: Schedule) -> None:
    held = WideTrial(trial, schedule)
    held.run()
    held.check()


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    return folder


@given(schedule=schedules(_LARGE))
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_on_memory(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), schedule)


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("delta", marks=pytest.mark.delta),
        pytest.param("hudi-mor:local", marks=pytest.mark.hudi),
        pytest.param("hudi-cow:local", marks=pytest.mark.hudi),
    ],
)
@given(schedule=schedules(_SMALL))
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_rows_on_spark(spark: SparkSession, tmp_path: Path, exits: ExitStack, backend: str, schedule: Schedule) -> None:
    _hold(Trial(_folder(tmp_path), backend, exits, compact_few_files), schedule)
