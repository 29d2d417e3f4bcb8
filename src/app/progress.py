"""What is told of epochs and publications, each in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from ..domain.epoch import Publication
    from ..domain.service import Kept
    from .runner import EpochReport

_THOUSAND = 1000
_UNITS = ("B", "kB", "MB", "GB")


def progress(report: EpochReport) -> str:
    """An epoch in one line: rows in, rows written, watermark, lag, and seconds by phase."""
    dead = f" ({report.dead_letters:,} to the dead letters)" if report.dead_letters else ""
    again = f" ({_counted(report.repeats, 'repeat')} passed over)" if report.repeats else ""
    waiting = report.task or f"{report.lag} waiting"
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    if passed_over := sum(report.passed_over.values()):
        dead += f" ({_counted(passed_over, 'message')} of other tables passed over)"
    return (
        f"{report.epoch.pipeline} epoch {report.epoch.number}: {report.rows:,} rows in{dead}{again},"
        f" {report.written:,} written,"
        f" watermark {moment(report.watermark)}, {waiting}, {sum(report.seconds.values()):.2f} s ({phases})"
    )


def moment(time: datetime | None) -> str:
    """A time (UTC) to the second; a dash for none."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else "-"


def tables_at(publication: Publication) -> str:
    """The tables of a publication, without the pipeline's name, each with its version."""
    return ", ".join(f"{name.split('.', 1)[1]}@{version}" for name, version in publication.tables.items())


def kept(found: Kept) -> str:
    """What a service keeps for the time being: ``1,200 rows of 3 chunks, 35 kB``."""
    of = "" if found.chunks is None else f" of {_counted(found.chunks, 'chunk')}"
    return f"{_counted(found.rows, 'row')}{of}, {_size(found.size)}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _size(count: int) -> str:
    """Bytes in the largest unit that they make one of."""
    size, units = float(count), iter(_UNITS)
    unit = next(units)
    for larger in units:
        if round(size) < _THOUSAND:
            break
        size, unit = size / _THOUSAND, larger
    return f"{size:,.0f} {unit}"
