"""The changes of a shop's orders as Maxwell messages, some of them sent twice; the same at every run.

An order is inserted as `new` and updated until it is `done` or `cancelled`; a few are deleted. Now and then Maxwell
sends the last messages of an epoch again at the beginning of the next one.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COLUMNS = "order_id bigint, user_id bigint, state string, amount decimal(18,2), mtime timestamp"
_STATES = ("new", "paid", "packed", "shipped", "done")
_CANCELLED = "cancelled"
_CLOSED = {_STATES[-1], _CANCELLED}
_START = datetime(2026, 1, 1, tzinfo=UTC)
_TS = int(_START.timestamp())
_SECONDS_BETWEEN = 0.25
_NEW_SHARE, _CANCELLED_SHARE, _DELETED_SHARE = 0.3, 0.05, 0.01
_EPOCHS_BETWEEN_CRASHES = 5
_RESENT = 0.02
_MOST_RESENT = 2_000
"""Within the 10 minutes that a repeat may go back."""
_BYTES = 400
_FILE_BYTES = 2**24


class Order(NamedTuple):
    """A row of the table; the amount is in cents."""

    order_id: int
    user_id: int
    state: str
    cents: int
    mtime: datetime

    @property
    def row(self) -> dict[str, Any]:
        """The row in the form of Maxwell's `data`."""
        row = self._asdict()
        cents = row.pop("cents")
        return row | {"amount": cents / 100, "mtime": f"{self.mtime:%Y-%m-%d %H:%M:%S}"}


class Change(NamedTuple):
    """A change: the row before and after it. `before` is None for an insert, `after` for a delete."""

    number: int
    before: Order | None
    after: Order | None


@define(eq=False)
class Shop:
    """Generates the changes of a shop's orders."""

    chance: random.Random = field(factory=lambda: random.Random(42))
    open: list[Order] = field(factory=list)
    totals: Counter[str] = field(factory=Counter)
    cents: Counter[str] = field(factory=Counter)
    changes: int = 0
    orders: int = 0

    def change(self) -> Change:
        """Make the next change."""
        mtime = _START + timedelta(seconds=int(self.changes * _SECONDS_BETWEEN))
        before, after = self._insert(mtime) if self._has_new_order() else self._advance(mtime)
        self._count(before, -1)
        self._count(after, 1)
        self.changes += 1
        return Change(self.changes, before, after)

    def _has_new_order(self) -> bool:
        return not self.open or self.chance.random() < _NEW_SHARE

    def _insert(self, mtime: datetime) -> tuple[None, Order]:
        self.orders += 1
        order = Order(self.orders, self.chance.randrange(50_000), _STATES[0], self.chance.randrange(100, 10**6), mtime)
        self.open.append(order)
        return None, order

    def _advance(self, mtime: datetime) -> tuple[Order, Order | None]:
        before = self._pop_open()
        after = self._next(before, mtime)
        if after is not None and after.state not in _CLOSED:
            self.open.append(after)
        return before, after

    def _pop_open(self) -> Order:
        """Remove a random order from the open orders, and return it."""
        at = self.chance.randrange(len(self.open))
        self.open[at], self.open[-1] = self.open[-1], self.open[at]
        return self.open.pop()

    def _next(self, order: Order, mtime: datetime) -> Order | None:
        """The next state of an order; None if it is deleted."""
        luck = self.chance.random()
        if luck < _DELETED_SHARE:
            return None
        cancelled = luck < _DELETED_SHARE + _CANCELLED_SHARE
        state = _CANCELLED if cancelled else _STATES[_STATES.index(order.state) + 1]
        return order._replace(state=state, mtime=mtime)

    def _count(self, order: Order | None, sign: int) -> None:
        if order is not None:
            self.totals[order.state] += sign
            self.cents[order.state] += sign * order.cents


def message(change: Change) -> str:
    """A change as a Maxwell message; each change is its own transaction."""
    before, after = change.before, change.after
    image = after or before
    assert image
    kind = "insert" if before is None else "delete" if after is None else "update"
    file, at = divmod(change.number * _BYTES, _FILE_BYTES)
    fields: dict[str, Any] = {"database": "shop", "table": "orders", "type": kind}
    fields |= {"ts": _TS + int(change.number * _SECONDS_BETWEEN), "xid": change.number, "commit": True}
    fields["position"] = f"binlog.{file + 1:06d}:{at}"
    fields["data"] = image.row
    if before and after:
        old, new = before.row, after.row
        fields["old"] = {name: value for name, value in old.items() if value != new[name]}
    return json.dumps(fields)


def epochs(count: int, rows: int, shop: Shop) -> Iterator[list[Change]]:
    """The changes of `count` epochs, with `rows` messages in each; repeats are included."""
    before: list[Change] = []
    for number in range(count):
        after_crash = number % _EPOCHS_BETWEEN_CRASHES == _EPOCHS_BETWEEN_CRASHES - 1
        again = min(round(rows * _RESENT), _MOST_RESENT) if after_crash else 0
        changes = before[len(before) - again :] + [shop.change() for _ in range(rows - again)]
        yield changes
        before = changes


def write(folder: Path, count: int, rows: int) -> Shop:
    """Write the messages and rows of each epoch, `messages/0000.json` and `rows/0000.parquet` and so on.

    Returns the shop after all changes.
    """
    messages, images, shop = folder / "messages", folder / "rows", Shop()
    messages.mkdir(parents=True)
    images.mkdir()
    for number, changes in enumerate(epochs(count, rows, shop)):
        (messages / f"{number:04d}.json").write_text("".join(f"{message(each)}\n" for each in changes))
        _rows(changes).write_parquet(images / f"{number:04d}.parquet")
    return shop


def _rows(changes: list[Change]) -> pl.DataFrame:
    """Both images of each change, in the form of decoded rows."""
    both = (image for each in changes for image in (("-U", each.before), ("+U", each.after)))
    rows = [(kind, *order) for kind, order in both if order]
    return pl.DataFrame(rows, schema=["kind", *Order._fields], orient="row")
