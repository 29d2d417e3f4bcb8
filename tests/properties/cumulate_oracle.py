"""A short, plain computation of cumulate curves, and random rows to compare Headwater with it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from math import log
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from attrs import define, field
from hypothesis import strategies as st

from headwater.domain.service.measures import Measure
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.domain.service.cumulate import CumulateSettings

SCHEMA = Schema.parse("id bigint, at timestamp, page string, country string, amount decimal(9,2), user string")
_MEASURES = {
    "pv": ("count(*)", None),
    "amounts": ("count(amount)", None),
    "amount": ("sum(amount)", None),
    "mean": ("avg(amount)", None),
    "uv": ("count(distinct user)", None),
    "least": ("min(amount)", None),
    "last_user": ("max(user)", None),
    "paid": ("count(*)", "amount > 0.15"),
    "about": ("approx_count_distinct(user)", None),
    "about_amounts": ("approx_count_distinct(amount)", None),
}
_ESTIMATES = {"about": "user", "about_amounts": "amount"}

Row = dict[str, Any]


@st.composite
def measures(draw: st.DrawFn, most: int, *, estimates: bool) -> list[Measure]:
    """Some of each kind; estimates only where they are allowed."""
    possible = sorted(set(_MEASURES) - (set() if estimates else set(_ESTIMATES)))
    names = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=most, unique=True))
    return [Measure.parse(name, *_MEASURES[name], SCHEMA, estimates=estimates) for name in names]


@st.composite
def rows(draw: st.DrawFn, start: datetime, spread: timedelta, most: int, *, changes: bool) -> list[Row]:
    """Rows in the order of their times, changes among them: what was there is taken back, at any time after."""
    whole = int(spread.total_seconds())
    seconds = draw(
        st.lists(st.integers(0, whole) | st.integers(0, whole // 900).map(lambda at: at * 900), max_size=most)
    )
    found: list[Row] = []
    alive: list[Row] = []
    for number, second in enumerate(sorted(seconds)):
        at = start + timedelta(seconds=second)
        if changes and alive and draw(st.integers(0, 2)) == 0:
            gone = alive.pop(draw(st.integers(0, len(alive) - 1)))
            found.append({**gone, "at": at, "_row_kind": "-D"})
            continue
        row = {
            "id": number,
            "at": at,
            "page": draw(st.sampled_from(["a", "b", "", None])),
            "country": draw(st.sampled_from(["de", None])),
            "amount": draw(st.sampled_from([None, Decimal("0.10"), Decimal("0.20"), Decimal("-3.00")])),
            "user": draw(st.sampled_from(["ann", "bob", "cat", None])),
            "_row_kind": "+I",
        }
        alive.append(row)
        found.append(row)
    return found


def window_start(at: datetime, settings: CumulateSettings) -> datetime:
    """The start of the window that a moment is in."""
    if settings.size % timedelta(days=1):
        return at - (at - datetime(1970, 1, 1, tzinfo=UTC) - settings.offset) % settings.size
    local = at.astimezone(ZoneInfo(settings.time_zone)).replace(tzinfo=None)
    midnight = local - (local - datetime(1970, 1, 1) - settings.offset) % settings.size
    return midnight.replace(tzinfo=ZoneInfo(settings.time_zone)).astimezone(UTC)


def pane_ends(start: datetime, settings: CumulateSettings) -> Iterator[datetime]:
    """The ends of a window's panes."""
    zone = ZoneInfo(settings.time_zone if not settings.size % timedelta(days=1) else "UTC")
    midnight = start.astimezone(zone).replace(tzinfo=None)
    midnight -= (midnight - datetime(1970, 1, 1) - settings.offset) % min(settings.size, timedelta(days=1))
    end = (midnight + settings.size).replace(tzinfo=zone).astimezone(UTC)
    if not settings.step % timedelta(days=1):
        for at in range(1, settings.size // settings.step + 1):
            yield (midnight + at * settings.step).replace(tzinfo=zone).astimezone(UTC)
        return
    at = start
    while at < end:
        at = min(at + settings.step, end)
        yield at


def pane_end(at: datetime, settings: CumulateSettings) -> datetime:
    """The end of the pane that a moment is in."""
    return next(end for end in pane_ends(window_start(at, settings), settings) if end > at)


def curve(taken: Iterable[Row], watermark: datetime | None, settings: CumulateSettings) -> dict[Any, Row]:
    """The measures at each tick up to a watermark, counted anew, by window, tick, grouping and dimensions."""
    groups: dict[Any, list[Row]] = {}
    for row in taken:
        for dimensions in settings.dimensions:
            group = tuple(row[name] if name in dimensions else None for name in settings.dimension_schema.names)
            groups.setdefault((window_start(row["at"], settings), ",".join(dimensions), group), []).append(row)
    answer = {}
    for (start, grouping, group), members in groups.items():
        own = {pane_end(row["at"], settings) for row in members}
        for end in pane_ends(start, settings):
            ticks = end >= min(own) if settings.ticks == "dense" else end in own
            if ticks and watermark is not None and end <= watermark:
                known = [row for row in members if row["at"] < end]
                answer[(start, end, grouping, *group)] = aggregate(known, settings.measures)
    return answer


@define
class Story:
    """Rows one at a time, each an epoch of its own: which are taken, and all that their ticks have ever said."""

    settings: CumulateSettings
    taken: list[Row] = field(factory=list)
    watermark: datetime | None = None
    told: dict[Any, list[Row]] = field(factory=dict)

    def read(self, row: Row) -> None:
        late = self.watermark is not None and pane_end(row["at"], self.settings) <= self.watermark
        if not late or self.settings.late == "revise":
            self.taken.append(row)
        moved = row["at"] - self.settings.watermark_delay
        before, self.watermark = self.watermark, max(moved, self.watermark or moved)
        if before is None or pane_end(before, self.settings) != pane_end(self.watermark, self.settings):
            self.told = self.so_far()

    def so_far(self) -> dict[Any, list[Row]]:
        """What each tick has said, each revision; a round of late rows that goes on has said what it has come to."""
        told = {tick: list(said) for tick, said in self.told.items()}
        for tick, now in curve(self.taken, self.watermark, self.settings).items():
            said = told.setdefault(tick, [])
            if not said or said[-1] != now:
                said.append(now)
        return told


def aggregate(known: list[Row], wanted: Iterable[Measure]) -> Row:
    """The measures of some rows, those taken back among them."""
    return {measure.name: _aggregate(known, measure.name) for measure in wanted}


def _aggregate(known: list[Row], name: str) -> Any:
    signed = [(-1 if row["_row_kind"] in ("-U", "-D") else 1, row) for row in known]
    if name == "pv":
        return sum(sign for sign, _ in signed)
    if name == "paid":
        return sum(sign for sign, row in signed if row["amount"] is not None and row["amount"] > Decimal("0.15"))
    if name in _ESTIMATES:
        return _estimate(str(row[_ESTIMATES[name]]) for row in known if row[_ESTIMATES[name]] is not None)
    column = "user" if name in ("uv", "last_user") else "amount"
    given = [(sign, row[column]) for sign, row in signed if row[column] is not None]
    count, total = (
        sum(sign for sign, _ in given),
        sum((sign * each for sign, each in given if column == "amount"), Decimal()),
    )
    if name == "amounts":
        return count
    if name in ("amount", "mean"):
        whole = total if name == "amount" else float(total) / (count or 1)
        return whole if count else None
    times = Counter[Any]()
    for sign, value in given:
        times[value] += sign
    held = [value for value, often in times.items() if often > 0]
    return {"uv": len(held), "least": min(held, default=None), "last_user": max(held, default=None)}[name]


def _estimate(values: Iterable[str]) -> int:
    """HyperLogLog of few values: by how many of its 4096 registers they leave free."""
    used = {md5(value.encode(), usedforsecurity=False).hexdigest()[:3] for value in values}
    return round(4096 * log(4096 / (4096 - len(used))))
