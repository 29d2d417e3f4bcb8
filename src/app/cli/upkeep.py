"""The commands that maintain tables: ``headwater compact | expire | pin | unpin | versions | explain-retention``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from ...domain.epoch.watermark import format_time
from ...domain.ledger.label import Label
from ...domain.ledger.retention import Verdict
from ...domain.ledger.upkeep import PublishedVersion, Upkeep
from ...domain.table.schema import Schema
from ..api import Headwater
from ..read.moments import Moment
from ..run.progress import show_time, tables_at
from .arguments import ANY_PIPELINE, FORMAT, PIPELINE, command, count, positive_duration, version
from .console import print_message
from .durable import open_durable
from .output import write
from .signals import graceful_stop

if TYPE_CHECKING:
    from ...adapters.records.json_rows import Cell

_COMPACTED = Schema.parse("table string, version string")
_EXPIRED = Schema.parse("table string, versions bigint, files bigint, bytes bigint")
_PINNED = Schema.parse("lease string, pipeline string, epoch bigint, until string, holder string")
_VERSIONS = Schema.parse(
    "epoch bigint, label string, published string, superseded string, readable boolean, leases string, tables string"
)
_VERDICTS = Schema.parse(
    "table string, version string, committed string, superseded string, state string, why string, may_go string"
)


@command
@ANY_PIPELINE
@click.option(
    "--every", metavar="DURATION", type=positive_duration, help="compact at this interval, next to a run, until stopped"
)
@FORMAT
def compact(*, config: str, pipeline: str | None, every: timedelta | None, form: str) -> None:
    """Rewrite small files into large ones, where that pays off."""
    with open_durable(config) as headwater:
        if every:
            named = None if pipeline is None else [pipeline]
            headwater.start(named)  # Spark takes over the interrupt signal when it starts
            with graceful_stop(headwater, "this compaction"):
                headwater.compact_beside(named, every=every)
            return
        made = (item for upkeep in _upkeeps(headwater, pipeline) for item in upkeep.compact().items())
        write(sys.stdout, form, _COMPACTED, map(list, made))


@command
@ANY_PIPELINE
@click.option("--apply", is_flag=True, help="expire them")
@FORMAT
def expire(*, config: str, pipeline: str | None, apply: bool, form: str) -> None:
    """Show the versions that the retention lets expire."""
    with open_durable(config) as headwater:
        gone = [each for upkeep in _upkeeps(headwater, pipeline) for each in upkeep.expire(dry_run=not apply)]
        write(sys.stdout, form, _EXPIRED, ([each.table, len(each.versions), each.files, each.size] for each in gone))
        if headwater.deployment.backend.retain.endless:
            remedy = "add retain = { versions = 5 } under [backend]"
            print_message(f"headwater: no retention is set, so every version is kept: {remedy}")
        if not apply and any(each.versions or each.files for each in gone):
            print_message("headwater: nothing was changed: add --apply to expire these versions")


@command
@PIPELINE
@click.option("--at", metavar="VERSION", type=version, help="by default the newest one")
@click.option("--for", "hold", metavar="DURATION", type=positive_duration, required=True, help="how long")
@click.option("--holder", metavar="NAME", help="who reads; by default this machine and process")
@FORMAT
def pin(*, config: str, pipeline: str, at: Moment | None, hold: timedelta, holder: str | None, form: str) -> None:
    """Keep a publication readable for a while."""
    with open_durable(config) as headwater:
        made = headwater.pin(pipeline, at=at, hold=hold, holder=holder)
        taken = made.leases[0]
        write(sys.stdout, form, _PINNED, [[made.lease, pipeline, made.epoch, show_time(taken.until), taken.holder]])


@command
@click.argument("lease", metavar="LEASE")
def unpin(*, config: str, lease: str) -> None:
    """End a lease."""
    with open_durable(config) as headwater:
        headwater.unpin(lease)


@command
@PIPELINE
@click.option("--limit", metavar="N", type=count, help="list at most the newest N")
@FORMAT
def versions(*, config: str, pipeline: str, limit: int | None, form: str) -> None:
    """List publications, newest first, and who holds them."""
    with open_durable(config) as headwater:
        found, service = headwater.upkeep(pipeline).versions(), headwater.services[pipeline]
        rows = (_version_row(each, service.label(each.publication)) for each in found[:limit])
        write(sys.stdout, form, _VERSIONS, rows)


def _version_row(found: PublishedVersion, label: Label | None) -> list[Cell]:
    publication = found.publication
    named = [publication.epoch.number, None if label is None else str(label)]
    times = [format_time(publication.published_at), show_time(found.superseded_at)]
    return [*named, *times, found.readable, ", ".join(found.leases), tables_at(publication)]


@command
@ANY_PIPELINE
@click.option("--limit", metavar="N", type=count, help="explain at most the newest N versions of each table")
@FORMAT
def explain_retention(*, config: str, pipeline: str | None, limit: int | None, form: str) -> None:
    """Explain why each version is still kept, newest first in each table."""
    with open_durable(config) as headwater:
        verdicts = (each for upkeep in _upkeeps(headwater, pipeline) for each in upkeep.verdicts())
        tables = (islice(of_table, limit) for _, of_table in groupby(verdicts, attrgetter("table")))
        write(sys.stdout, form, _VERDICTS, map(_verdict_row, chain.from_iterable(tables)))


def _verdict_row(verdict: Verdict) -> list[Cell]:
    state = "expired" if verdict.expired else "may go" if verdict.may_go else "kept"
    times = [format_time(verdict.commit.committed_at), show_time(verdict.superseded_at)]
    until = f"after {' and '.join(verdict.until)}" if verdict.until else None
    return [verdict.table, verdict.commit.version, *times, state, "; ".join(verdict.reasons), until]


def _upkeeps(headwater: Headwater, pipeline: str | None) -> Iterator[Upkeep]:
    """The upkeep of the named pipeline, or of all."""
    return map(headwater.upkeep, headwater.deployment.pipelines if pipeline is None else [pipeline])
