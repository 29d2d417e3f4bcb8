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

from ..epoch.batch import ERROR
from ..ports import FrameCache
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

_LANE, _OPEN, _TOLD, _SEEN = "_lane", "_open", "_told", "_seen"


def is_mark() -> nw.Expr:
    """Whether a row of a batch is a mark: it informs about a transaction and has no image."""
    return nw.col(ROW_KIND).is_null() & nw.col(ERROR).is_null()


def split_complete(
    rows: nw.LazyFrame[Any], engine: FrameCache, *, transactions: str, order: Sequence[str], lane: nw.Expr | None
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Split rows into those of complete transactions and those that wait for the rest of theirs.

    Args:
        rows: the rows that waited so far and the new rows, with `TRANSACTION_COLUMNS`, ``_row_kind`` and ``_error``.
        engine: persists frames that are used several times.
        transactions: how the end of a transaction is recognised, ``ordered`` or ``counted``; see `ChangeSpec`.
        order: columns that order the rows of a lane as in the log; rows that waited come first.
        lane: the log of a row, each log being in order (Kafka partitions); None if all rows are of one log.

    Returns:
        The rows of complete transactions and the rows without one, with `AT` and without marks; and the waiting rows,
        unchanged, marks included.
    """
    rows = engine.persist(rows)
    in_transactions = rows.filter(~nw.col(TRANSACTION).is_null())
    commits = in_transactions.group_by(TRANSACTION).agg(nw.col(COMMIT_TIME).max().alias(AT))
    still_open = _incomplete(in_transactions) if transactions == COUNTED else _open_tails(in_transactions, order, lane)
    states = commits.join(still_open, on=TRANSACTION, how="left")
    labelled = engine.persist(rows.join(states, on=TRANSACTION, how="left"))
    is_open = nw.col(_OPEN).fill_null(value=False)
    # A row without a transaction takes effect at its own time.
    moment = nw.coalesce(nw.col(AT), nw.col(COMMIT_TIME))
    complete = labelled.filter(~is_open & ~is_mark()).with_columns(moment.alias(AT)).drop(_OPEN)
    return complete, labelled.filter(is_open).drop(_OPEN, AT)


def _open_tails(rows: nw.LazyFrame[Any], order: Sequence[str], lane: nw.Expr | None) -> nw.LazyFrame[Any]:
    """The transactions that their log may continue: the last one of each lane, unless its commit has been read."""
    lanes = rows.with_columns((nw.lit("") if lane is None else lane).alias(_LANE))
    last = lanes.unique(subset=[_LANE], keep="last", order_by=list(order))
    uncommitted = last.filter(~nw.col(COMMIT).fill_null(value=False))
    return uncommitted.select(TRANSACTION).unique().with_columns(nw.lit(value=True).alias(_OPEN))


def _incomplete(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The transactions with missing events, or whose number of events is not known yet."""
    totals = rows.group_by(TRANSACTION).agg(nw.col(EVENTS).max().alias(_TOLD))
    events = rows.filter(~nw.col(EVENT).is_null()).select(TRANSACTION, EVENT).unique()
    seen = events.group_by(TRANSACTION).agg(nw.len().alias(_SEEN))
    both = totals.join(seen, on=TRANSACTION, how="left")
    missing = nw.col(_SEEN).fill_null(0) < nw.col(_TOLD)
    is_open = nw.col(_TOLD).is_null() & ~nw.col(_SEEN).is_null() | missing.fill_null(value=False)
    return both.select(TRANSACTION, is_open.alias(_OPEN)).filter(nw.col(_OPEN))
