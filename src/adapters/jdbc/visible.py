"""Positions of a database's log, and whether queries see all changes up to them.

A commit is in the log before queries see it: it waits for the disk, or for a standby server. If a chunk is read in
between, and has the position of that moment, the change is lost: the rows lack it, and their position says that they
have it. An older position is safe, since the changes after it are applied to the rows. So positions are remembered
until it is known that queries see all changes before them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic_ns, sleep
from typing import TYPE_CHECKING, Protocol, TypeAlias

from attrs import define, field, frozen

from ...domain.duration import microseconds, show_duration
from ...domain.errors import SourceUnavailable
from . import postgresql

if TYPE_CHECKING:
    from .database import Database

Position: TypeAlias = tuple[str, ...]

Moment: TypeAlias = tuple[str, int]
"""A moment in the order of a database's commits: what is counted, and a number. Only moments of one count compare."""

_PATIENCE = 20.0
"""The seconds for which a process waits for its first position. Meanwhile its pipeline reads no changes."""
_PAUSE = 0.1
_MOST = 100
"""The largest number of positions that are remembered."""
_SHORTEST = timedelta(seconds=1)
_PRIMARY, _STANDBY = "f", "t"
"""What PostgreSQL answers to `pg_is_in_recovery()`."""
_NOW = """SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery()
THEN pg_wal_lsn_diff(GREATEST(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0') ELSE txid_current() END"""
_SEEN = """SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery()
THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') ELSE txid_snapshot_xmin(txid_current_snapshot()) - 1 END"""
_REASONS = {
    _PRIMARY: "transactions that were open when it was to be read are still open, and queries may not see yet what they"
    " committed; it is read when they have ended (see pg_stat_activity and pg_prepared_xacts)",
    _STANDBY: "the standby server has not replayed yet what it had received when the chunk was to be read; it is read"
    " when the server has",
}


class NotVisible(SourceUnavailable):
    """Queries may not see yet all changes up to any position that is known."""


class Commits(Protocol):
    """The order of a database's commits."""

    def now(self) -> Moment:
        """A moment after all commits that are in the log."""

    def seen(self) -> Moment:
        """The latest moment up to which queries see all commits."""

    def reason(self, moment: Moment) -> str:
        """Why queries may not see all commits before a moment, and when they do."""


@frozen
class PostgresCommits(Commits):
    """The commits of PostgreSQL: moments are numbers of transactions; on a standby server, positions of its own log.

    A snapshot's `xmax` would not do as a moment: transactions that are still open may have that number or a higher one.
    So a number is drawn. Every transaction with a commit in the log has a lower one.
    """

    database: Database

    def now(self) -> Moment:
        return self._ask(_NOW)

    def seen(self) -> Moment:
        return self._ask(_SEEN)

    def reason(self, moment: Moment) -> str:
        return _REASONS[moment[0]]

    def _ask(self, sql: str) -> Moment:
        found = self.database.row(sql)
        if found is None or None in found:
            raise SourceUnavailable("the standby server does not tell how far it has replayed; read the primary server")
        return found[0], int(found[1])


@frozen
class TimedCommits(Commits):
    """The commits of a database that does not tell which ones queries see: all are seen after a time.

    Args:
        within: the longest time between a commit in the log and the first query that sees it.
    """

    within: timedelta

    def now(self) -> Moment:
        return "", monotonic_ns()

    def seen(self) -> Moment:
        return "", monotonic_ns() - microseconds(self.within) * 1000

    def reason(self, moment: Moment) -> str:  # noqa: ARG002 - the protocol's
        age = show_duration(self.within)
        return (
            f"queries may see a commit only some time after it is in the log; it is read when its position is {age} old"
        )


def commits_of(database: Database, delay: timedelta) -> Commits:
    """The commits of a database.

    Args:
        database: the database.
        delay: the longest time between a commit in the log and the first query that sees it, if it is more than a
            second. PostgreSQL tells which ones are seen.
    """
    if database.settings.kind == postgresql.KIND:
        return PostgresCommits(database)
    return TimedCommits(max(delay, _SHORTEST))


@define(eq=False)
class VisiblePositions:
    """The newest position of a log whose changes queries see.

    Args:
        position: returns the current position of the log.
        commits: the database's commits.
        patience: the seconds for which it waits in all.
    """

    position: Callable[[], Position]
    commits: Commits
    patience: float = _PATIENCE
    _marks: list[tuple[Position, Moment]] = field(init=False, factory=list)

    def newest(self) -> Position:
        """A position up to which every query from now on sees all changes.

        Only the first one may have to be waited for. Later ones may be older.

        Raises:
            NotVisible: no position is known yet. A later call may find one of those that are remembered.
            SourceUnavailable: the database does not answer, or rejects the query.
        """
        if len(self._marks) == _MOST:
            del self._marks[1::2]
        # The moment comes after the position, so that all commits up to the position are before it.
        self._marks.append((self.position(), self.commits.now()))
        while (found := self._newest_seen()) is None:
            if self.patience <= 0:
                raise NotVisible(self.commits.reason(self._marks[-1][1]))
            sleep(_PAUSE)
            self.patience -= _PAUSE
        return found

    def _newest_seen(self) -> Position | None:
        counted, number = self.commits.seen()
        marks = enumerate(moment for _, moment in self._marks)
        seen = [at for at, moment in marks if moment[0] == counted and moment[1] <= number]
        if not seen:
            return None
        del self._marks[: seen[-1]]
        return self._marks[0][0]
