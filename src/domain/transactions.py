"""Transactions of a changelog: which of its rows belong together, and when they count.

No row of a transaction counts before the transaction has been seen whole, and all of them count at the moment of its
commit. Two kinds of changelog tell when it is whole (`ChangeSpec.transactions`): one log in the order of the commits,
where the last row says so or the next transaction begins; and one whose transactions come with the number of their
events, in whatever order these arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from .changelog.settings import COUNTED
from .epoch import ERROR, ROW_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ports import FrameEngine

TRANSACTION, COMMIT, COMMIT_TIME, EVENT, EVENTS = "_transaction", "_commit", "_commit_time", "_event", "_events"
TRANSACTION_COLUMNS = {
    TRANSACTION: "string",
    COMMIT: "boolean",
    COMMIT_TIME: "timestamp",
    EVENT: "bigint",
    EVENTS: "bigint",
}
"""What rows have beside their own columns where the source tells of transactions (`RecordSpec.tells_transactions`):

* ``_transaction`` string: its name; null for a row that is of none and stands alone;
* ``_commit`` boolean: whether it is its last row; null where the changelog does not tell;
* ``_commit_time`` timestamp (UTC): of the row, as the changelog has it;
* ``_event`` bigint: the row's number in it; the two images of an update share one. Null where the changelog has none;
* ``_events`` bigint: on a mark, how many events of the tables that are read it has in all; else null.

A mark is a row that brings no image: its ``_row_kind`` and its ``_error`` are both null.
"""

AT = "_at"
"""timestamp (UTC): the moment at which a row counts, that of its transaction's commit."""

_LANE, _OPEN, _TOLD, _SEEN = "_lane", "_open", "_told", "_seen"


def is_mark() -> nw.Expr:
    """Whether a row of a batch only tells of transactions, and brings no image."""
    return nw.col(ROW_KIND).is_null() & nw.col(ERROR).is_null()


def whole(
    rows: nw.LazyFrame[Any], engine: FrameEngine, *, transactions: str, order: Sequence[str], lane: nw.Expr | None
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Part rows into those whose transactions have been seen whole, and those that wait for the rest.

    Args:
        rows: those that waited so far, and the new ones, with `TRANSACTION_COLUMNS`, ``_row_kind`` and ``_error``.
        engine: keeps what is used several times.
        transactions: how the changelog tells that one is whole, ``ordered`` or ``counted``; see `ChangeSpec`.
        order: columns that order the rows of a lane as the log had them, those that waited first.
        lane: tells apart the logs that are each in order (partitions of Kafka); None if all rows are one log.

    Returns:
        The rows of whole transactions and those of none, with `AT` and without marks; and the waiting ones, as they
        were given, marks among them.
    """
    rows = engine.persist(rows)
    of_some = rows.filter(~nw.col(TRANSACTION).is_null())
    commits = of_some.group_by(TRANSACTION).agg(nw.col(COMMIT_TIME).max().alias(AT))
    still_open = _uncounted(of_some) if transactions == COUNTED else _tails(of_some, order, lane)
    told = commits.join(still_open, on=TRANSACTION, how="left")
    placed = engine.persist(rows.join(told, on=TRANSACTION, how="left"))
    is_open = nw.col(_OPEN).fill_null(value=False)
    # A row of no transaction counts at its own time.
    moment = nw.coalesce(nw.col(AT), nw.col(COMMIT_TIME))
    counting = placed.filter(~is_open & ~is_mark()).with_columns(moment.alias(AT)).drop(_OPEN)
    return counting, placed.filter(is_open).drop(_OPEN, AT)


def _tails(rows: nw.LazyFrame[Any], order: Sequence[str], lane: nw.Expr | None) -> nw.LazyFrame[Any]:
    """The transactions that their log may go on with: the last one of each lane, unless its commit has been seen."""
    lanes = rows.with_columns((nw.lit("") if lane is None else lane).alias(_LANE))
    last = lanes.unique(subset=[_LANE], keep="last", order_by=list(order))
    uncommitted = last.filter(~nw.col(COMMIT).fill_null(value=False))
    return uncommitted.select(TRANSACTION).unique().with_columns(nw.lit(value=True).alias(_OPEN))


def _uncounted(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The transactions of which not all events are there, or nothing tells yet how many they are."""
    told = rows.group_by(TRANSACTION).agg(nw.col(EVENTS).max().alias(_TOLD))
    events = rows.filter(~nw.col(EVENT).is_null()).select(TRANSACTION, EVENT).unique()
    seen = events.group_by(TRANSACTION).agg(nw.len().alias(_SEEN))
    both = told.join(seen, on=TRANSACTION, how="left")
    missing = nw.col(_SEEN).fill_null(0) < nw.col(_TOLD)
    is_open = nw.col(_TOLD).is_null() & ~nw.col(_SEEN).is_null() | missing.fill_null(value=False)
    return both.select(TRANSACTION, is_open.alias(_OPEN)).filter(nw.col(_OPEN))
