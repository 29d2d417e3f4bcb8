"""A short, plain computation of totals, and random lives of a table to compare Headwater with it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from headwater.domain.service.retraction import Measure, RetractionSettings
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEMA = Schema.parse(
    "id bigint, state string, amount decimal(9,2), buyer string, score int, mtime timestamp,"
    " file string, pos bigint, line bigint"
)
_START = datetime(2024, 3, 8, 20, tzinfo=UTC)  # days of Shanghai begin at 16:00 here
_MEASURES: dict[str, tuple[str, str | None]] = {
    "orders": ("count(*)", None),
    "amounts": ("count(amount)", None),
    "amount": ("sum(amount)", None),
    "mean": ("avg(amount)", None),
    "buyers": ("count(distinct buyer)", None),
    "least": ("min(amount)", None),
    "last_buyer": ("max(buyer)", None),
}
_OF_SOME: dict[str, tuple[str, str | None]] = {
    "paid": ("count(*)", "score > 1"),
    "paid_sum": ("sum(cast(amount * 2 as decimal(12,2)))", "score > 1 or score is null"),
    "good_buyers": ("count(distinct buyer)", "score > 1"),
}

Row = dict[str, Any]


@st.composite
def measures(draw: st.DrawFn, most: int) -> list[Measure]:
    """Some of each kind, now and then over some rows alone."""
    possible = _MEASURES | (_OF_SOME if draw(st.integers(0, 3)) == 0 else {})
    names = draw(st.lists(st.sampled_from(sorted(possible)), min_size=1, max_size=most, unique=True))
    texts = {name: possible[name] for name in names}
    return [Measure.parse(name, text, where, SCHEMA) for name, (text, where) in texts.items()]


@st.composite
def _images(draw: st.DrawFn, row: int) -> Row:
    """A row as the database has it."""
    return {
        "id": row,
        "state": draw(st.sampled_from(["new", "paid", "sent", "", None])),
        "amount": draw(st.sampled_from([None, Decimal("0.10"), Decimal("0.20"), Decimal("19.99"), Decimal("-3.00")])),
        "buyer": draw(st.sampled_from(["ann", "bob", None])),
        "score": draw(st.sampled_from([None, 0, 1, 2])),
        "mtime": _START + timedelta(hours=6) * draw(st.integers(0, 20)),
    }


@st.composite
def logs(draw: st.DrawFn, most: int) -> list[list[Row]]:
    """What a table's log says: records in its order, an update's two images together."""
    alive: dict[int, Row] = {}
    records: list[list[Row]] = []
    for number in range(draw(st.integers(1, most))):
        place = {"file": f"bin.{9 + number // 4:06d}", "pos": 90 + number // 2 * 20, "line": number % 2}
        row = draw(st.integers(1, 4))
        if row not in alive:
            image = draw(_images(row))
            records.append([{**image, **place, "_row_kind": "+I"}])
            alive[row] = image
        elif draw(st.integers(0, 3)) == 0:
            records.append([{**alive.pop(row), **place, "_row_kind": "-D"}])
        else:
            before = alive.pop(row)
            free = [each for each in range(1, 5) if each not in alive]
            image = draw(_images(draw(st.sampled_from(free))))
            records.append([{**before, **place, "_row_kind": "-U"}, {**image, **place, "_row_kind": "+U"}])
            alive[image["id"]] = image
    return records


@st.composite
def deliveries(draw: st.DrawFn, most: int) -> list[Row]:
    """A log as a reader gets it: now and then its sender goes back, and says again what it said before."""
    records = draw(logs(most))
    sent: list[list[Row]] = []
    for number, record in enumerate(records, start=1):
        sent.append(record)
        if draw(st.integers(0, 5)) == 0:
            sent += records[draw(st.integers(0, number - 1)) : number]
    return [row for record in sent for row in record]


def read_once(rows: Iterable[Row]) -> Iterator[Row]:
    """What was read, without repeats."""
    newest: tuple[Any, ...] = ()
    for row in rows:
        place = (int(row["file"].rpartition(".")[2]), row["pos"], row["line"], row["_row_kind"] == "+U")
        if place > newest:
            newest = place
            yield row


def alive_after(rows: Iterable[Row]) -> list[Row]:
    """The table after all that was read, repeats passed over."""
    alive: dict[int, Row] = {}
    for row in read_once(rows):
        if row["_row_kind"] in ("-U", "-D"):
            del alive[row["id"]]
        else:
            alive[row["id"]] = row
    return list(alive.values())


def totals(alive: Iterable[Row], settings: RetractionSettings) -> dict[Any, Row]:
    """The measures of each group, counted anew."""
    groups: dict[Any, list[Row]] = {}
    for row in alive:
        groups.setdefault(tuple(row[name] for name in settings.group), []).append(row)
    names = [measure.name for measure in settings.measures]
    return {group: {name: _ANSWERS[name](rows) for name in names} for group, rows in groups.items()}


def local_day(row: Row, settings: RetractionSettings) -> date:
    """The day under which a row's last change is filed."""
    moment: datetime = row["mtime"]
    return moment.astimezone(ZoneInfo(settings.time_zone)).date()


def filed(rows: Iterable[Row], settings: RetractionSettings) -> list[tuple[date, int, Row]]:
    """Each image that came or went with its day, an old one filed with the new one behind it."""
    found: list[tuple[date, int, Row]] = []
    for row in read_once(rows):
        if row["_row_kind"] == "+U":
            _, sign, before = found.pop()
            found.append((local_day(row, settings), sign, before))
        found.append((local_day(row, settings), -1 if row["_row_kind"] in ("-U", "-D") else 1, row))
    return found


def net_of(images: Iterable[tuple[int, Row]], name: str) -> Any:
    """A measure of images that came and went; the sums may be those of more that went than came."""
    signed = list(images)
    if name == "orders":
        return sum(sign for sign, _ in signed)
    given = [(sign, row[_COLUMNS[name]]) for sign, row in signed if row[_COLUMNS[name]] is not None]
    if name == "amount":
        return sum((sign * value for sign, value in given), Decimal()) if sum(sign for sign, _ in given) else None
    times = Counter[Any]()
    for sign, value in given:
        times[value] += sign
    held = [value for value, count in times.items() if count > 0]
    return len(held) if name == "buyers" else min(held, default=None)


_COLUMNS = {"amount": "amount", "buyers": "buyer", "least": "amount"}


def _given(rows: list[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _scored(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["score"] is not None and row["score"] > 1]


def _paid_sum(rows: list[Row]) -> Decimal | None:
    chosen = _given([*_scored(rows), *(row for row in rows if row["score"] is None)], "amount")
    return sum((2 * each for each in chosen), Decimal()) if chosen else None


_ANSWERS = {
    "orders": len,
    "amounts": lambda rows: len(_given(rows, "amount")),
    "amount": lambda rows: sum(_given(rows, "amount"), Decimal()) if _given(rows, "amount") else None,
    "mean": lambda rows: (
        float(sum(_given(rows, "amount"))) / len(_given(rows, "amount")) if _given(rows, "amount") else None
    ),
    "buyers": lambda rows: len(set(_given(rows, "buyer"))),
    "least": lambda rows: min(_given(rows, "amount"), default=None),
    "last_buyer": lambda rows: max(_given(rows, "buyer"), default=None),
    "paid": lambda rows: len(_scored(rows)),
    "paid_sum": _paid_sum,
    "good_buyers": lambda rows: len(set(_given(_scored(rows), "buyer"))),
}
