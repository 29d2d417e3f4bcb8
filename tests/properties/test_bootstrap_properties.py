"""Wherever a history ends and the stream begins, and whatever both bring: the rows are those of the stream alone."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.testing.trial import Trial

from .effort import examples

DEPLOYMENT = Path(__file__).parents[2] / "features" / "bootstrap.toml"

keys = st.integers(1, 4)
# No two records of a topic have one sequence and other values: between those only the order of arrival decides.
info = st.tuples(keys, st.integers(1, 9)).map(
    lambda drawn: (str(drawn[0]), f"name {drawn[0]} {drawn[1]}", f"2024-03-0{drawn[1]} 09:00")
)
stock = st.tuples(keys, st.integers(1, 9)).map(
    lambda drawn: (str(drawn[0]), str(10 * drawn[0] + drawn[1]), str(drawn[1]))
)
COLUMNS = {"info": ("shop_id", "name", "updated_at"), "stock": ("shop_id", "items", "seq")}


@st.composite
def schedules(draw: st.DrawFn) -> dict[str, tuple[list[Any], list[Any], list[Any]]]:
    """Of each topic: its records in order; files of its history; and epochs of its stream, which may repeat the history."""
    found = {}
    for topic, record in (("info", info), ("stock", stock)):
        records = draw(st.lists(record, max_size=12))
        ends, begins = sorted((draw(st.integers(0, len(records))), draw(st.integers(0, len(records)))), reverse=True)
        found[topic] = (records, _cut(draw, records[:ends]), _cut(draw, records[begins:]))
    return found


def _cut(draw: st.DrawFn, records: list[Any]) -> list[list[Any]]:
    at = sorted(draw(st.sets(st.integers(1, max(1, len(records) - 1)), max_size=3)))
    return [part for part in (records[a:b] for a, b in zip([0, *at], [*at, None], strict=True)) if part]


def rows(trial: Trial) -> list[Any]:
    return sorted(trial.open().view("shop.rows").rows(), key=str)


def deployed(folder: Path, exits: ExitStack) -> Trial:
    folder.mkdir()
    trial = Trial(folder, "memory", exits)
    trial.deploy(DEPLOYMENT.read_text(encoding="utf-8"))
    return trial


def fed(trial: Trial, topic: str, records: list[Any]) -> None:
    trial.feed_table(topic, [COLUMNS[topic], *records] if topic == "stock" else _inserts(records))


def _inserts(records: list[Any]) -> list[Any]:
    return [("kind", *COLUMNS["info"]), *(("+I", *record) for record in records)]


@settings(max_examples=examples(25))
@given(schedules())
def test_a_history_and_a_stream_are_the_stream_alone(
    schedule: dict[str, tuple[list[Any], list[Any], list[Any]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as exits:
        loaded, streamed = (deployed(Path(folder, name), exits) for name in ("loaded", "streamed"))
        for topic, (records, history, _) in schedule.items():
            for file in history:
                loaded.remember(topic, [COLUMNS[topic], *file])
            if records:
                fed(streamed, topic, records)
        if any(history for _, history, _ in schedule.values()):
            loaded.load("shop")
        for topic, (_, _, stream) in schedule.items():
            for epoch in stream:
                fed(loaded, topic, epoch)
        for trial in (loaded, streamed):
            trial.run()
        assert rows(loaded) == rows(streamed)
