"""A short, plain computation of ranks, and random lives of events to compare Headwater with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

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


@st.composite
def lives(draw: st.DrawFn, *, complete: bool) -> list[Row]:
    """A changelog of some events: inserts, repeats, updates that may move a row anywhere, deletes.

    Args:
        draw: Hypothesis's.
        complete: every change of a stored row names where it was, with its before image; otherwise upserts and deletes
            may know nothing but the id.
    """
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
        action = draw(st.sampled_from(["insert", "insert", "insert", "repeat", "update", "delete"]))
        if action == "insert" or not known:
            row = {"id": draw(st.integers(1, 30)), **draw(images)}
            if row["id"] in alive:
                continue
            log.append({**row, "_row_kind": "+I"})
            alive[row["id"]] = row
            continue
        old = alive[draw(st.sampled_from(known))]
        blind = not complete and draw(st.booleans())
        if action == "repeat":
            log.append({**old, "_row_kind": "+I"})
        elif action == "update":
            new = {**old, **draw(images)}
            log += [] if blind else [{**old, "_row_kind": "-U"}]
            log.append({**new, "_row_kind": "+U"})
            alive[new["id"]] = new
        else:
            image = dict.fromkeys(old) | {"id": old["id"]} if blind else old
            log.append({**image, "_row_kind": "-D"})
            del alive[old["id"]]
    return log
