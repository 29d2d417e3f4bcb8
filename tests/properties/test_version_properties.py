"""Versions of random contents: what differs between two leads from one to the other, and a label names the newest."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.memory.store import MemoryStore
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import VersionNotFound
from headwater.domain.ledger.label import Label
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.table.change import Change
from headwater.domain.table.net_changes import align, net_changes, net_rows
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.testing.clock import ManualClock
from headwater.testing.frames import polars_frame

if TYPE_CHECKING:
    import narwhals as nw

    from headwater.domain.epoch.epoch import Publication

SCHEMA, OTHER = Schema.parse("id bigint, name string"), Schema.parse("id bigint, size bigint, name string")
NAMES = st.sampled_from([None, "", "a", "b"])
ROWS = st.lists(st.tuples(st.integers(0, 3), NAMES), max_size=8)
OTHER_ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2]), NAMES), max_size=8)
Row = tuple[Any, ...]


def one_a_key(rows: list[Row]) -> list[Row]:
    return list({row[0]: row for row in rows}.values())


def collected(frame: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    return frame.collect(backend="polars").rows(named=True)


def content(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted((name, row[name]) for name in row if not name.startswith("_"))) for row in rows)


def without_nulls(rows: Counter[tuple[tuple[str, Any], ...]]) -> Counter[tuple[tuple[str, Any], ...]]:
    """Rows whose absent columns are those that are null, so that contents of other columns can be compared."""
    found: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for row, count in rows.items():
        found[tuple(pair for pair in row if pair[1] is not None)] += count
    return found


def applied(before: list[dict[str, Any]], changes: list[dict[str, Any]]) -> Counter[tuple[tuple[str, Any], ...]]:
    """The old content with the changes done to it, as any reader of a changelog would."""
    found = without_nulls(content(before))
    for change in changes:
        (row,) = without_nulls(content([change]))
        found[row] += change.get("_multiplicity", 1) * (1 if change["_row_kind"] in {"+I", "+U"} else -1)
    assert all(count >= 0 for count in found.values())
    return +found


@given(ROWS, ROWS)
def test_by_key(old: list[Row], new: list[Row]) -> None:
    before, after = (polars_frame(one_a_key(rows), SCHEMA) for rows in (old, new))
    changes = collected(net_changes(before, after, ["id"]))
    assert applied(collected(before), changes) == without_nulls(content(collected(after)))
    kinds = {key: {each["_row_kind"] for each in changes if each["id"] == key} for key in range(4)}
    keys = [{row["id"] for row in collected(frame)} for frame in (before, after)]
    for key, found in kinds.items():
        expected = {(True, True): {"-U", "+U"}, (True, False): {"-D"}, (False, True): {"+I"}}
        assert not found or found == expected[key in keys[0], key in keys[1]]


@given(ROWS, ROWS)
def test_by_whole_rows(old: list[Row], new: list[Row]) -> None:
    before, after = polars_frame(old, SCHEMA), polars_frame(new, SCHEMA)
    changes = collected(net_rows(before, after))
    assert applied(collected(before), changes) == without_nulls(content(collected(after)))
    rows = [each for change in changes for each in content([change])]
    assert len(rows) == len(set(rows))


@given(ROWS, OTHER_ROWS, st.booleans())
def test_across_a_change_of_columns(old: list[Row], new: list[Row], backwards: bool) -> None:  # noqa: FBT001 - drawn
    frames = polars_frame(old, SCHEMA), polars_frame(new, OTHER)
    before, after = reversed(frames) if backwards else frames
    changes = collected(net_rows(*align(before, after)))
    assert applied(collected(before), changes) == without_nulls(content(collected(after)))


def test_from_nothing_and_to_nothing() -> None:
    rows, nothing = polars_frame([(1, "a"), (1, "a")], SCHEMA), polars_frame([], Schema(()))
    assert [each["_multiplicity"] for each in collected(net_rows(*align(nothing, rows)))] == [2]
    assert [each["_row_kind"] for each in collected(net_rows(*align(rows, nothing)))] == ["-D"]


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.booleans()), max_size=8), st.integers(0, 4))
def test_a_label_names_the_newest_version_that_has_it(drawn: list[tuple[int | None, bool]], wanted: int) -> None:
    """Watermarks only go forward; a version may have an earlier label than its watermark, or none."""
    store, start = MemoryStore(), datetime(2024, 3, 1, tzinfo=UTC)
    store.ensure(TableSpec("p.a", SCHEMA, ("id",)))
    ledger = LedgerWriter(store, "p", ["p.a"], ManualClock(), lambda _built: None, "settings", "writer")
    ledger.open()
    labels: dict[int, Label | None] = {}
    for number, (days, labelled) in enumerate(drawn):
        ledger.begin(OffsetRange(None, {"at": number}))
        so_far = ledger.latest.watermark if ledger.latest else None
        own = None if days is None else start + timedelta(days=days)
        reached = max((each for each in (so_far, own) if each), default=None)
        ledger.publish(Change(), reached)
        labels[number] = Label(own) if own and labelled else None
    label = Label(start + timedelta(days=wanted))

    def of(publication: Publication) -> Label | None:
        return labels[publication.epoch.number]

    having = [number for number, each in labels.items() if each == label]
    if having:
        assert ledger.as_of_label(label, of).epoch.number == max(having)
    else:
        with pytest.raises(VersionNotFound):
            ledger.as_of_label(label, of)
