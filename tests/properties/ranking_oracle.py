"""A short, plain computation of ranks, and random lives of events to compare Headwater with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from headwater.domain.service.segments import Segments
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwater.domain.service.ranking import RankingSettings

SCHEMA = Schema.parse("team bigint, id bigint, at timestamp, tie string, note bigint")
_START = datetime(2024, 3, 9, 22, tzinfo=UTC)  # hours before New York sets its clocks forward

Row = dict[str, Any]


def apply(rows: Iterable[Row]) -> dict[int, Row]:
    """The rows alive after a changelog, by id."""
    alive: dict[int, Row] = {}
    for row in rows:
        if row["_row_kind"] in ("-U", "-D"):
            alive.pop(row["id"], None)
        else:
            alive[row["id"]] = {name: row[name] for name in SCHEMA.names}
    return alive


def ranks(alive: Iterable[Row], settings: RankingSettings) -> dict[int, int]:
    """The rank of each row, by id: sort, then count."""
    found: dict[int, int] = {}
    teams: dict[int, list[Row]] = {}
    for row in alive:
        teams.setdefault(row["team"], []).append(row)
    for rows in teams.values():
        rank, values, before = 0, 0, object()
        for number, row in enumerate(_sorted(rows, settings), start=1):
            if row["at"] != before:
                rank, values, before = number, values + 1, row["at"]
            found[row["id"]] = {"row_number": number, "rank": rank, "dense_rank": values}[settings.method]
    return found


def _sorted(rows: list[Row], settings: RankingSettings) -> list[Row]:
    rows = sorted(rows, key=lambda row: row["id"])
    for tie in reversed(settings.tie_break):
        name = tie.removeprefix("-")
        given = sorted((row for row in rows if row[name] is not None), key=_of(name), reverse=tie.startswith("-"))
        rows = given + [row for row in rows if row[name] is None]
    timed = sorted((row for row in rows if row["at"] is not None), key=_of("at"), reverse=settings.descending)
    untimed = [row for row in rows if row["at"] is None]
    return untimed + timed if settings.nulls == "first" else timed + untimed


def _of(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name]


def _cell(row: Row, settings: RankingSettings) -> tuple[int, int | None]:
    """The group and the segment of a row."""
    segments = Segments.of(
        settings.order_by,
        SCHEMA[settings.order_by],
        interval=settings.segment,
        offset=settings.offset,
        zone=settings.time_zone,
        nulls_lowest=False,
    )
    return row["team"], None if row["at"] is None else segments.number_of(row["at"])


def _after(alive: dict[int, Row], team: int) -> datetime:
    """A time after those of all rows of a group."""
    times = (row["at"] for row in alive.values() if row["team"] == team and row["at"])
    return max(times, default=_START) + timedelta(minutes=20)


@st.composite
def lives(draw: st.DrawFn, settings: RankingSettings) -> list[Row]:
    """A changelog of some events: inserts, repeats, updates that may move a row anywhere, deletes.

    A row that rises becomes the newest of its group. Upserts and deletes may know nothing but the id. With
    ``repeats = "same-segment"`` a delete, and an update that moves a row to another cell, name where the row was, with
    the before image.
    """
    complete = settings.repeats == "same-segment"
    alive: dict[int, Row] = {}
    log: list[Row] = []
    images = st.fixed_dictionaries(
        {
            "team": st.integers(1, 2),
            "at": st.none() | st.integers(0, 60).map(lambda half: _START + timedelta(minutes=30 * half)),
            "tie": st.sampled_from([None, "a", "b"]),
            "note": st.integers(0, 2),
        }
    )
    for _ in range(draw(st.integers(0, 24))):
        known = sorted(alive)
        action = draw(st.sampled_from(["insert", "insert", "insert", "repeat", "update", "rise", "delete"]))
        if action == "insert" or not known:
            row = {"id": draw(st.integers(1, 30)), **draw(images)}
            if row["id"] in alive:
                continue
            log.append({**row, "_row_kind": "+I"})
            alive[row["id"]] = row
            continue
        old = alive[draw(st.sampled_from(known))]
        blind = draw(st.booleans())
        if action == "repeat":
            log.append({**old, "_row_kind": "+I"})
        elif action in {"update", "rise"}:
            new = {**old, **(draw(images) if action == "update" else {"at": _after(alive, old["team"])})}
            only_new = blind and (not complete or _cell(old, settings) == _cell(new, settings))
            log += [] if only_new else [{**old, "_row_kind": "-U"}]
            log.append({**new, "_row_kind": "+U"})
            alive[new["id"]] = new
        else:
            image = dict.fromkeys(old) | {"id": old["id"]} if blind and not complete else old
            log.append({**image, "_row_kind": "-D"})
            del alive[old["id"]]
    return log
