"""Transactions of a changelog: which rows belong together, and when they take effect.

The rows of a transaction take effect together, at the time of its commit, and only once the transaction is complete.
There are two ways to see that it is complete (`ChangeSpec.transactions`). ``ordered``: the log is in the order of the
commits; a transaction ends with the row that says so, or where the next one begins. ``counted``: the changelog has the
number of events of each transaction; these may arrive in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from ..epoch.batch import ERROR, ORIGIN
from ..ports import FrameCache
from ..table.collect import collect_small
from ..table.row_kind import ROW_KIND
from .changelog.settings import COUNTED

TRANSACTION, COMMIT, COMMIT_TIME, EVENT, EVENTS = "_transaction", "_commit", "_commit_time", "_event", "_events"
TRANSACTION_COLUMNS = {
    TRANSACTION: "string",
    COMMIT: "boolean",
    COMMIT_TIME: "timestamp",
    EVENT: "bigint",
    EVENTS: "bigint",
}
"""The added columns of rows whose source reads transactions (`RecordSpec.tells_transactions`):

* ``_transaction`` string: the name of the row's transaction; null for a row without one, which stands alone;
* ``_commit`` boolean: whether it is the transaction's last row; null if the changelog does not report it;
* ``_commit_time`` timestamp (UTC): the row's commit time in the changelog;
* ``_event`` bigint: the row's number in the transaction, shared by the two images of an update; null if unknown;
* ``_events`` bigint: on a mark, the number of the transaction's events in the tables that are read; else null.

A mark is a row without an image: its ``_row_kind`` and its ``_error`` are both null.
"""

AT = "_at"
"""timestamp (UTC): the time at which a row takes effect, that of its transaction's commit."""

FOLLOWS = "_follows"
"""boolean: whether a row follows one that waits; see `mark_followers`."""

_LANE, _OPEN, _TOLD, _SEEN = "_lane", "_open", "_told", "_seen"
_UNIT, _WAITING, _COUNT = "_unit", "_waiting", "_count"


def is_mark() -> nw.Expr:
    """Whether a row of a batch is a mark: it informs about a transaction and has no image."""
    return nw.col(ROW_KIND).is_null() & nw.col(ERROR).is_null()


def split_complete(
    rows: nw.LazyFrame[Any],
    engine: FrameCache,
    *,
    transactions: str,
    order: Sequence[str],
    lane: nw.Expr | None,
    key: Sequence[str],
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Split rows into those that can take effect and those that wait.

    A transaction waits for its missing rows. It also waits while an earlier row of one of its keys waits: otherwise the
    earlier row would take effect after it. If events are counted, an event that occurs again is dropped.

    Args:
        rows: the rows that waited so far and the new rows, with `TRANSACTION_COLUMNS` and `BATCH_COLUMNS`.
        engine: persists frames that are used several times.
        transactions: how the end of a transaction is recognised, ``ordered`` or ``counted``; see `ChangeSpec`.
        order: columns that order the rows of a lane as in the log; rows that waited come first.
        lane: the log of a row, each log being in order (Kafka partitions); None if all rows are of one log.
        key: the columns that identify a row of the table; all rows of one key are in one lane.

    Returns:
        The rows of complete transactions and the rows without one, with `AT` and without marks; and the waiting rows,
        unchanged, marks included.
    """
    counted = transactions == COUNTED
    rows = engine.persist((_drop_copies(rows, order) if counted else rows).with_columns(_unit()))
    in_transactions = rows.filter(~nw.col(TRANSACTION).is_null())
    commits = in_transactions.group_by(TRANSACTION).agg(nw.col(COMMIT_TIME).max().alias(AT))
    incomplete = find_incomplete(in_transactions) if counted else _open_tails(in_transactions, order, lane)
    waiting = _with_followers(incomplete.select(nw.col(TRANSACTION).alias(_UNIT)), rows, engine, order, key)
    states = waiting.with_columns(nw.lit(value=True).alias(_OPEN))
    labelled = rows.join(commits, on=TRANSACTION, how="left").join(states, on=_UNIT, how="left").drop(_UNIT)
    labelled = engine.persist(labelled)
    is_open = nw.col(_OPEN).fill_null(value=False)
    # A row without a transaction takes effect at its own time.
    moment = nw.coalesce(nw.col(AT), nw.col(COMMIT_TIME))
    complete = labelled.filter(~is_open & ~is_mark()).with_columns(moment.alias(AT)).drop(_OPEN)
    return complete, labelled.filter(is_open).drop(_OPEN, AT)


def mark_followers(
    rows: nw.LazyFrame[Any],
    waiting: nw.LazyFrame[Any],
    engine: FrameCache,
    *,
    order: Sequence[str],
    key: Sequence[str],
) -> nw.LazyFrame[Any]:
    """Rows with `FOLLOWS`: whether they belong to a transaction that waits, or to one that has to wait for it.

    Args:
        rows: have `TRANSACTION_COLUMNS` and `BATCH_COLUMNS`; persisted.
        waiting: the rows that wait, with the same columns.
        engine: persists frames that are used several times.
        order: columns that order the rows of a log; `waiting` comes first.
        key: the columns that identify a row of the table.
    """
    names = (TRANSACTION, *key, *order, ORIGIN, ERROR, ROW_KIND)
    both = nw.concat([each.select(*names) for each in (waiting, rows)])
    both = engine.persist(both.with_columns(_unit()))
    units = _with_followers(waiting.select(_unit()), both, engine, order, key)
    states = units.with_columns(nw.lit(value=True).alias(FOLLOWS))
    marked = rows.with_columns(_unit()).join(states, on=_UNIT, how="left").drop(_UNIT)
    return marked.with_columns(nw.col(FOLLOWS).fill_null(value=False))


def _unit() -> nw.Expr:
    """What waits as a whole: a transaction or, for a row without one, the rows of its record."""
    return nw.coalesce(nw.col(TRANSACTION), nw.col(ORIGIN)).alias(_UNIT)


def _drop_copies(rows: nw.LazyFrame[Any], order: Sequence[str]) -> nw.LazyFrame[Any]:
    """The rows without events that were sent again: a later copy would replace newer images of its key."""
    numbered = ~nw.col(TRANSACTION).is_null() & ~nw.col(EVENT).is_null()
    first = rows.filter(numbered).unique(subset=[TRANSACTION, EVENT, ROW_KIND], keep="first", order_by=list(order))
    return nw.concat([rows.filter(~numbered), first])


def _with_followers(
    waiting: nw.LazyFrame[Any], rows: nw.LazyFrame[Any], engine: FrameCache, order: Sequence[str], key: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Add the units of which a row comes after a waiting row of its key, and those that come after these in turn."""
    images = rows.filter(nw.col(ERROR).is_null(), ~nw.col(ROW_KIND).is_null()).select(_UNIT, *key, *order)
    waiting = engine.persist(waiting.unique())
    known, count = 0, _count(waiting)
    while count > known:
        states = waiting.with_columns(nw.lit(1).alias(_WAITING))
        labelled = images.join(states, on=_UNIT, how="left").with_columns(nw.col(_WAITING).fill_null(0))
        so_far = nw.col(_WAITING).cum_sum().over(*key, order_by=list(order))
        followers = labelled.with_columns(so_far.alias(_COUNT)).filter(nw.col(_COUNT) > 0).select(_UNIT)
        waiting = engine.persist(nw.concat([waiting, followers]).unique())
        known, count = count, _count(waiting)
    return waiting


def _count(rows: nw.LazyFrame[Any]) -> int:
    (line,) = collect_small(rows.select(nw.len().alias(_COUNT)))
    return int(line[_COUNT])


def _open_tails(rows: nw.LazyFrame[Any], order: Sequence[str], lane: nw.Expr | None) -> nw.LazyFrame[Any]:
    """The transactions that their log may continue: the last one of each lane, unless its commit has been read."""
    lanes = rows.with_columns((nw.lit("") if lane is None else lane).alias(_LANE))
    last = lanes.unique(subset=[_LANE], keep="last", order_by=list(order))
    uncommitted = last.filter(~nw.col(COMMIT).fill_null(value=False))
    return uncommitted.select(TRANSACTION).unique()


def find_incomplete(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The names of counted transactions with missing events, or whose number of events is not known yet."""
    totals = rows.group_by(TRANSACTION).agg(nw.col(EVENTS).max().alias(_TOLD))
    events = rows.filter(~nw.col(EVENT).is_null()).select(TRANSACTION, EVENT).unique()
    seen = events.group_by(TRANSACTION).agg(nw.len().alias(_SEEN))
    both = totals.join(seen, on=TRANSACTION, how="left")
    missing = nw.col(_SEEN).fill_null(0) < nw.col(_TOLD)
    is_open = nw.col(_TOLD).is_null() & ~nw.col(_SEEN).is_null() | missing.fill_null(value=False)
    return both.filter(is_open).select(TRANSACTION)
