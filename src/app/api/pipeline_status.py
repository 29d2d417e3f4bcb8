"""Finds the status of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import narwhals as nw

from ...adapters.shared.unanswered import remember_unanswered
from ...domain.epoch.epoch import Publication
from ...domain.errors import ConfigError, EngineLost, HeadwaterError, NotInstalled, Transient
from ...domain.ledger.ledger import Snapshot
from ...domain.source import dead_letter
from ...domain.table.collect import collect_small
from ..read.latency import Latency
from ..read.status import PipelineStatus
from ..run.alerts import alarms_of
from ..run.loading import is_loading
from ..run.rebuild import describe_unfinished
from ..run.runner import Runner

_OF_ALL = (ConfigError, NotInstalled, EngineLost, Transient)
"""Errors that other pipelines of a deployment would have, too."""


def statuses_of(pipelines: Iterable[str], read: Callable[[str], PipelineStatus]) -> tuple[PipelineStatus, ...]:
    """The status of each pipeline; if one cannot be read, such as that of damaged tables, the error is its alarm."""

    def guarded(pipeline: str) -> PipelineStatus:
        try:
            return read(pipeline)
        except _OF_ALL:
            raise
        except HeadwaterError as error:
            return PipelineStatus(pipeline, None, None, None, Latency(None, None), alarms=(str(error),), error=error)

    with remember_unanswered():
        return tuple(map(guarded, pipelines))


def status_of(runner: Runner, latency: Latency, *, lag: bool = True) -> PipelineStatus:
    """The status of a pipeline; its `lag` is None if it is not asked for."""
    ledger, service = runner.current_ledger(), runner.service
    latest = ledger.latest
    unread = _lag(runner, latest) if lag else None
    with runner.engine.working():
        snapshot = ledger.snapshot()
        bookkeeping = service.bookkeeping(snapshot) if latest else {}
        repeats = service.repeats(snapshot) if latest else None
        dead_letters = _count_dead_letters(runner, snapshot)
    alarms = tuple(each.text for each in alarms_of(runner, latest))
    complete_to = service.complete_to(latest) if latest else None
    return PipelineStatus(
        runner.pipeline, latest, unread, dead_letters, latency, bookkeeping, alarms, repeats, ledger.engine, complete_to
    )


def _lag(runner: Runner, latest: Publication | None) -> str | None:
    """The unread input, and what else keeps the tables from what they will be; None if nothing is known of it."""
    after = latest.offsets if latest else None
    try:
        input_ = [runner.source.lag(after), runner.source.held_back(after)]
    except HeadwaterError as error:
        input_ = [f"unknown: {error}"]
    loading = "its history is being loaded" if is_loading(runner.ledger, runner.service) else ""
    return "; ".join(filter(None, (*input_, loading, describe_unfinished(runner)))) or None


def _count_dead_letters(runner: Runner, snapshot: Snapshot) -> int:
    name = dead_letter.table(runner.pipeline)
    if name not in {spec.name for spec in runner.service.tables}:
        return 0
    (row,) = collect_small(snapshot.read(name).select(nw.len().alias("count")))
    return int(row["count"])
