"""The status of the pipelines of a deployment, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from attrs import frozen

from ...domain.epoch.watermark import format_time
from ...domain.table.schema import Schema, column
from ..read.status import PipelineStatus
from ..run.progress import kept, show_time, tables_at
from .html import html_table
from .text_table import text_table

_COLUMNS = Schema.parse(
    "pipeline string, epoch bigint, published string, watermark string, waiting string, dead_letters bigint,"
    " repeats bigint, expected_latency string, measured_latency string, tables string, bookkeeping string,"
    " alarms string"
)


@frozen
class StatusTable(Sequence[PipelineStatus]):
    """The status of each pipeline; `print` and notebooks show it as a table.

    Args:
        found: the status of each pipeline.
        engines: whether an engine is chosen for each epoch; the table then names it.
    """

    found: tuple[PipelineStatus, ...]
    engines: bool

    @overload
    def __getitem__(self, at: int) -> PipelineStatus: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[PipelineStatus, ...]: ...

    def __getitem__(self, at: int | slice) -> PipelineStatus | tuple[PipelineStatus, ...]:
        return self.found[at]

    def __len__(self) -> int:
        return len(self.found)

    @property
    def columns(self) -> Schema:
        """The columns of the table."""
        return _COLUMNS.plus(column("engine", "string")) if self.engines else _COLUMNS

    @property
    def rows(self) -> list[list[str | int | None]]:
        """A row for each pipeline."""
        return [[*_row(each), *([each.engine] if self.engines else [])] for each in self]

    def __str__(self) -> str:
        """The table, as ``headwater status`` prints it."""
        return "\n".join(text_table(self.columns, self.rows))

    def _repr_html_(self) -> str:
        return html_table(self.columns.names, self.rows)


def _row(found: PipelineStatus) -> list[str | int | None]:
    spans = [str(span) if span else None for span in (found.latency.expected, found.latency.measured)]
    waits = "; ".join(f"{name}: {kept(each)}" for name, each in found.bookkeeping.items())
    notes = (waits or None, "; ".join(found.alarms) or None)
    if (latest := found.publication) is None:
        return [found.pipeline, None, None, None, found.lag, None, None, *spans, None, *notes]
    place = (found.pipeline, latest.epoch.number)
    times = (format_time(latest.published_at), show_time(found.complete_to))
    return [*place, *times, found.lag, found.dead_letters, found.repeats, *spans, tables_at(latest), *notes]
