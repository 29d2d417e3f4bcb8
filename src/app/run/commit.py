"""Commits the changes of an epoch, table by table."""

from __future__ import annotations

from typing import Protocol

from ...domain.epoch.epoch import Publication, Tally
from ...domain.ledger.writer import LedgerWriter
from ...domain.ports import FrameEngine, Version, VersionedStore
from ...domain.service.base import Service, Step
from ...domain.table.change import Change
from ...domain.table.spec import TableSpec
from .materialized import materialized_change
from .options import RunOptions
from .report import Phases
from .watermarks import watermarks_after


class Committing(Protocol):
    """What commits; see `Runner`."""

    service: Service
    store: VersionedStore
    engine: FrameEngine
    options: RunOptions

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """All tables, in the order of their commits."""

    @property
    def ledger(self) -> LedgerWriter:
        """The pipeline's ledger, opened."""


def commit_step(
    runner: Committing, step: Step, phase: Phases, tally: Tally | None, base: Publication | None = None
) -> int:
    """Commit every table that changes, and last the anchor table with the publication; return the rows written.

    The watermarks of the publication come from the step, or from `base` if it is set.
    """
    ledger, before = runner.ledger, runner.ledger.snapshot()
    ledger.record_rows(step.rows)
    written = 0
    *others, anchor = runner.tables
    for spec in others:
        with phase(_short(spec)):
            change = _change(runner, spec, step)
            if not change.empty:
                written += _count_written(runner, spec, ledger.commit(spec.name, change))
    with phase(_short(anchor)):
        watermark, reached = watermarks_after(step, before.publication, runner.options.watermark_delay)
        if base:
            watermark, reached = base.watermark, base.watermarks
        published = ledger.publish(_change(runner, anchor, step), watermark, reached, tally)
        written += _count_written(runner, anchor, published.tables[anchor.name])
    return written


def _count_written(runner: Committing, spec: TableSpec, version: str) -> int:
    return runner.store.version(spec.name, Version(version)).written or 0


def _change(runner: Committing, spec: TableSpec, step: Step) -> Change:
    if (view := _short(spec)) not in runner.options.materialize:
        return step.changes.get(spec.name, Change())
    return materialized_change(runner.service, view, runner.ledger, runner.engine)


def _short(spec: TableSpec) -> str:
    return spec.name.split(".", 1)[1]
