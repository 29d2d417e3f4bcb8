"""Records in the commits of tables without rows: every backend can store one, and replaces it by one commit."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ..epoch.epoch import OffsetRange, Offsets
from ..ports import Clock, VersionedStore
from ..table.change import Change
from ..table.schema import Schema
from ..table.spec import TableSpec
from .ledger import find_no_change
from .writer import LedgerWriter


def read_record(store: VersionedStore, table: str) -> Offsets:
    """What was recorded last, from metadata; empty if nothing was."""
    marks = (commit.mark for commit in store.versions(table))
    found = next((mark.publication for mark in marks if mark and mark.publication), None)
    return found.offsets if found else {}


@frozen(eq=False)
class Recorder:
    """Writes records, for one process.

    Args:
        store: of the tables.
        clock: returns the present time.
        writer: identifies the process.
    """

    store: VersionedStore
    clock: Clock
    writer: str

    def replace(self, table: str, after: Offsets, check: Callable[[Offsets], None]) -> None:
        """Record something by one commit.

        Args:
            table: the table without rows, ``folder.name``.
            after: what is recorded; JSON can store it.
            check: gets what is on record now, and raises an error if that must not be replaced.

        Raises:
            EpochConflict: another process has recorded something at the same time; nothing was changed.
        """
        spec = TableSpec(table, Schema.parse("generation bigint"))  # a table needs a column; it has no row
        own = (self.store, table.partition(".")[0], (table,), self.clock)
        ledger = LedgerWriter(*own, find_no_change, fingerprint="", writer=self.writer)
        ledger.open()
        check(ledger.offsets or {})
        self.store.ensure(spec, ledger.snapshot().versions)
        ledger.begin(OffsetRange(ledger.offsets, after))
        ledger.publish(Change(), None)
