"""The commands that maintain tables: ``headwater compact | expire | pin | unpin | versions | explain-retention``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...domain.table.schema import Schema
from ..run.progress import moment, tables_at
from .arguments import add_command, add_format, positive_duration, version
from .console import print_message
from .durable import open_durable
from .output import write
from .signals import graceful_stop

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from ...adapters.records.json_rows import Cell
    from ...domain.ledger.label import Label
    from ...domain.ledger.retention import Verdict
    from ...domain.ledger.upkeep import PublishedVersion, Upkeep
    from ..api import Headwater

_COMPACTED = Schema.parse("table string, version string")
_EXPIRED = Schema.parse("table string, versions bigint, files bigint, bytes bigint")
_PINNED = Schema.parse("lease string, pipeline string, epoch bigint, until string, holder string")
_VERSIONS = Schema.parse(
    "epoch bigint, label string, published string, superseded string, readable boolean, leases string, tables string"
)
_VERDICTS = Schema.parse(
    "table string, version string, committed string, superseded string, state string, why string, may_go string"
)


def add_upkeep(commands: Any) -> None:
    """Declare the commands."""
    compact = _add(
        commands, "compact", "rewrite small files into large ones, where that pays off", _compact, pipeline="?"
    )
    about = "compact at this interval, next to a run, until stopped"
    compact.add_argument("--every", metavar="DURATION", type=positive_duration, help=about)
    expire = _add(commands, "expire", "show the versions that the retention lets expire", _expire, pipeline="?")
    expire.add_argument("--apply", action="store_true", help="expire them")
    _add_pin(commands)
    unpin = add_command(commands, "unpin", "end a lease", _unpin)
    unpin.add_argument("lease", metavar="LEASE")
    _add(commands, "versions", "list publications, and who holds them", _versions, pipeline=None)
    _add(commands, "explain-retention", "explain why each version is still kept", _explain, pipeline="?")


def _add(commands: Any, name: str, about: str, function: Any, *, pipeline: str | None) -> argparse.ArgumentParser:
    command = add_command(commands, name, about, function)
    command.add_argument("pipeline", metavar="PIPELINE", nargs=pipeline)
    add_format(command)
    return command


def _add_pin(commands: Any) -> None:
    pin = _add(commands, "pin", "keep a publication readable for a while", _pin, pipeline=None)
    pin.add_argument("--at", metavar="VERSION", type=version, help="by default the newest one")
    pin.add_argument("--for", metavar="DURATION", dest="hold", type=positive_duration, required=True)
    pin.add_argument("--holder", metavar="NAME", help="who reads; by default this machine and process")


def _compact(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        if options.every:
            named = [options.pipeline] if options.pipeline else None
            headwater.start(named)  # Spark takes over the interrupt signal when it starts
            with graceful_stop(headwater, "this compaction"):
                headwater.compact_beside(named, every=options.every)
            return
        made = (item for upkeep in _upkeeps(headwater, options) for item in upkeep.compact().items())
        _print(options, _COMPACTED, map(list, made))


def _expire(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        gone = [each for upkeep in _upkeeps(headwater, options) for each in upkeep.expire(dry_run=not options.apply)]
        _print(options, _EXPIRED, ([each.table, len(each.versions), each.files, each.size] for each in gone))
        if headwater.deployment.backend.retain.endless:
            remedy = "add retain = { versions = 5 } under [backend]"
            print_message(f"headwater: no retention is set, so every version is kept: {remedy}")
        if not options.apply:
            print_message("headwater: nothing was changed: add --apply to expire these versions")


def _pin(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        pin = headwater.pin(options.pipeline, at=options.at, hold=options.hold, holder=options.holder)
        taken = pin.leases[0]
        _print(options, _PINNED, [[pin.lease, options.pipeline, pin.epoch, moment(taken.until), taken.holder]])


def _unpin(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        headwater.unpin(options.lease)


def _versions(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        found, service = headwater.upkeep(options.pipeline).versions(), headwater.services[options.pipeline]
        _print(options, _VERSIONS, (_version_row(each, service.label(each.publication)) for each in found))


def _version_row(found: PublishedVersion, label: Label | None) -> list[Cell]:
    publication = found.publication
    named = [publication.epoch.number, None if label is None else str(label)]
    times = [moment(publication.published_at), _moment_or_null(found.superseded_at)]
    return [*named, *times, found.readable, ", ".join(found.leases), tables_at(publication)]


def _moment_or_null(time: datetime | None) -> str | None:
    return None if time is None else moment(time)


def _explain(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        verdicts = (each for upkeep in _upkeeps(headwater, options) for each in upkeep.verdicts())
        _print(options, _VERDICTS, map(_verdict_row, verdicts))


def _verdict_row(verdict: Verdict) -> list[Cell]:
    state = "expired" if verdict.expired else "may go" if verdict.may_go else "kept"
    times = [moment(verdict.commit.committed_at), _moment_or_null(verdict.superseded_at)]
    until = f"after {' and '.join(verdict.until)}" if verdict.until else None
    return [verdict.table, verdict.commit.version, *times, state, "; ".join(verdict.reasons), until]


def _upkeeps(headwater: Headwater, options: argparse.Namespace) -> Iterator[Upkeep]:
    """The upkeep of the named pipeline, or of all."""
    names = [options.pipeline] if options.pipeline else headwater.deployment.pipelines
    return map(headwater.upkeep, names)


def _print(options: argparse.Namespace, schema: Schema, rows: Iterable[list[Cell]]) -> None:
    write(sys.stdout, options.format, schema, rows)
