"""Reads dead letters again, after their cause has been fixed."""

from __future__ import annotations

import narwhals as nw
from attrs import evolve, frozen

from ...domain.epoch.batch import Batch
from ...domain.epoch.epoch import Epoch, OffsetRange
from ...domain.errors import ConfigError
from ...domain.ledger.ledger import Snapshot
from ...domain.ports import DeadLetterReader
from ...domain.service.base import Service, Step
from ...domain.source import dead_letter
from ...domain.table.change import Change
from ...domain.table.collect import collect_small
from .report import REPLAY
from .runner import Runner


@frozen
class ReplayResult:
    """The result of a replay, as numbers.

    Args:
        read: dead letters that were read again.
        rows: their rows that were used.
        left: dead letters after the replay.
        unreadable: those of `left` that this source cannot read again; they are unchanged.
    """

    read: int
    rows: int
    left: int
    unreadable: int


def replay(runner: Runner) -> ReplayResult:
    """Read the dead letters again, in a separate epoch; there is no epoch if none of them can be read.

    The publication that adds the rows of a dead letter removes it. One that fails again stays with a new reason.

    Raises:
        ConfigError: the pipeline has no dead letters table.
        HeadwaterError: the replay failed; nothing is changed, and the call can be repeated.
    """
    table = dead_letter.table(runner.pipeline)
    if table not in {spec.name for spec in runner.service.tables}:
        raise ConfigError(f"pipeline {runner.pipeline!r} has no dead letters table")
    work = Replay(runner.service, runner.source, table)
    runner.reopen()  # another process may have run the pipeline since
    with runner.engine.working():
        found = work.count(runner.ledger.snapshot())
    if not found.read:
        return found
    step = runner.amend(REPLAY, work.step, found.read)
    used, left = step.rows - step.dead_letters, step.dead_letters + found.unreadable
    return ReplayResult(found.read, used, left, found.unreadable)


@frozen(eq=False)
class Replay:
    """An epoch that reads dead letters instead of its source."""

    service: Service
    source: DeadLetterReader
    table: str

    def count(self, snapshot: Snapshot) -> ReplayResult:
        """Count the dead letters; nothing is read again."""
        letters = snapshot.read(self.table).select(self.source.rereadable().alias("readable"))
        counts = collect_small(letters.group_by("readable").agg(nw.len().alias("count")))
        read, unreadable = (sum(each["count"] for each in counts if each["readable"] is it) for it in (True, False))
        return ReplayResult(read, 0, read + unreadable, unreadable)

    def step(self, epoch: Epoch, snapshot: Snapshot) -> Step:
        """Read the dead letters again; those that fail again replace the table, next to the unreadable ones."""
        assert snapshot.publication is not None
        dead_letters, offsets = snapshot.read(self.table), snapshot.publication.offsets
        readable = self.source.rereadable()
        rows = self.source.reread(dead_letters.filter(readable))
        batch = Batch(epoch, rows, OffsetRange(offsets, offsets), self.source.format, replay=True)
        step = self.service.step(batch, snapshot)
        failed = step.changes.get(self.table, Change()).append
        unreadable = dead_letters.filter(~readable)
        left = unreadable if failed is None else nw.concat([unreadable, failed.select(*dead_letter.SCHEMA.names)])
        return evolve(step, changes={**step.changes, self.table: Change(overwrite=left)})
