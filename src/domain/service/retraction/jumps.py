"""Jumps: rows at which a new log with the name of an earlier one begins, and how the table `places` remembers them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import narwhals as nw
from attrs import frozen

from .tables import COMMIT_TIME, PARTITION, PLACE, REPEATS

NEW_LOG = "\x1f[0-9]+$"
"""The number that a jump adds to the name of a log within an epoch, see `name_new_log`."""
_BEGINNING, _OF_BEGINNING = " #0", r" #0$"
_BEGAN, _HAS_BEGUN = "_began", "_has_begun"
_UNKNOWN = 2**62


@frozen
class Jump:
    """A row whose place goes back further than a repeat may.

    Args:
        partition: the log as stored: the partition of the Kafka topic, if any, and the name of the log.
        position: the position of the row in its batch.
        origin: the origin of the row.
        place: the numbers of the row's place.
        committed: its commit time in milliseconds since 1970; None if unknown.
        seen: the latest commit time before it, in milliseconds since 1970; None if unknown.
        last_file: the number of the latest log file before it; None if places have no file.
    """

    partition: str
    position: int
    origin: str
    place: tuple[int, ...]
    committed: int | None
    seen: int | None
    last_file: int | None

    @property
    def later(self) -> bool:
        """Whether it was committed after everything that was read before. Then it cannot be a repeat."""
        return self.committed is not None and self.seen is not None and self.committed > self.seen

    @property
    def base(self) -> str:
        """The name of the log without the number that a jump adds, as stored."""
        return re.sub(NEW_LOG, "", self.partition)

    @property
    def began(self) -> int:
        """The time of the jump: whatever is committed later is of the new log; beyond all times if unknown."""
        return _UNKNOWN if self.committed is None else max(self.committed, self.seen or self.committed)


def name_new_log(base: str, number: int) -> str:
    """Return the name of the log that a jump begins, within an epoch: no log is called so by its database."""
    return f"{base}\x1f{number}"


def has_form_of_beginning(name: str) -> bool:
    """Whether a stored name is that of a beginning; see `note_beginnings`. The name of no log has this form now."""
    return name.endswith(_BEGINNING)


def note_beginnings(jumps: Iterable[Jump]) -> list[dict[str, Any]]:
    """Return a row of `places` for each log with jumps, named ``LOG #0``, with the time of its last jump."""
    last = {jump.base: jump for jump in jumps}
    return [
        {PARTITION: base + _BEGINNING, PLACE: None, COMMIT_TIME: jump.began, REPEATS: 0} for base, jump in last.items()
    ]


def leave_out_earlier_logs(rows: nw.LazyFrame[Any], committed: nw.Expr, places: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Leave out the rows that may be from a log before the last jump: those not committed later.

    Args:
        rows: rows with their log in `PARTITION`.
        committed: their commit time in milliseconds since 1970, or null.
        places: the stored logs.
    """
    log, is_beginning = nw.col(PARTITION), nw.col(PARTITION).str.contains(_OF_BEGINNING)
    beginnings = places.filter(is_beginning).select(
        log.str.replace_all(_OF_BEGINNING, "").alias(PARTITION),
        nw.col(COMMIT_TIME).alias(_BEGAN),
        nw.lit(value=True).alias(_HAS_BEGUN),
    )
    is_current = nw.col(_HAS_BEGUN).is_null() | (committed > nw.col(_BEGAN)).fill_null(value=False)
    return rows.join(beginnings, on=PARTITION, how="left").filter(is_current).drop(_BEGAN, _HAS_BEGUN)
