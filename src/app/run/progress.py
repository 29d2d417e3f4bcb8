"""Formats epochs and publications, each in one line."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from ...domain.epoch.epoch import Publication
from ...domain.epoch.watermark import format_time
from ...domain.service.base import PendingRows
from .report import EpochReport

_log = logging.getLogger(__name__)
_THOUSAND = 1000
_UNITS = ("B", "kB", "MB", "GB")


def progress(report: EpochReport) -> str:
    """Format an epoch in one line: rows in if it read a source, rows written, watermark, lag, and seconds by phase."""
    dead = f" ({report.dead_letters:,} to the dead letters)" if report.dead_letters else ""
    again = f" ({_count(report.repeats, 'repeat')} skipped)" if report.repeats else ""
    waiting = report.task or (f"{report.lag} waiting" if report.lag else "")
    after = f", {waiting}" if waiting else ""
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    engine = f" on {report.engine}" if report.engine else ""
    watermark = show_time(report.watermark) or "-"
    if passed_over := sum(report.passed_over.values()):
        dead += f" ({_count(passed_over, 'message')} of other tables skipped)"
    read = "" if report.task and not (report.rows or dead or again) else f"{report.rows:,} rows in{dead}{again}, "
    return (
        f"{report.epoch.pipeline} epoch {report.epoch.number}: {read}{report.written:,} written,"
        f" watermark {watermark}{after}, {sum(report.seconds.values()):.2f} s{engine} ({phases})"
    )


def show_time(time: datetime | None) -> str | None:
    """As `format_time`; None for None."""
    return None if time is None else format_time(time)


def exact_moment(time: datetime) -> str:
    """Format a time to the microsecond, in UTC: for programs, which compare and subtract it, or give it back."""
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def tables_at(publication: Publication) -> str:
    """Format the tables of a publication, without the pipeline's name, each with its version."""
    return ", ".join(f"{name.split('.', 1)[1]}@{version}" for name, version in publication.tables.items())


def kept(found: PendingRows) -> str:
    """Format rows that a service stores only for a time: ``1,200 rows of 3 chunks, 35 kB``."""
    of = "" if found.chunks is None else f" of {_count(found.chunks, 'chunk')}"
    since = "" if found.oldest is None else f", the oldest of {format_time(found.oldest)}"
    return f"{_count(found.rows, 'row')}{of}, {_show_size(found.size)}{since}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _show_size(count: int) -> str:
    """Format a number of bytes in the largest unit in which it is at least 1."""
    size, units = float(count), iter(_UNITS)
    unit = next(units)
    for larger in units:
        if round(size) < _THOUSAND:
            break
        size, unit = size / _THOUSAND, larger
    return f"{size:,.0f} {unit}"


def log_progress(report: EpochReport) -> None:
    """Log one line about an epoch, at level INFO; the default report of `Headwater`."""
    _log.info("%s", progress(report))
