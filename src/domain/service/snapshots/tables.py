"""The tables of a snapshots pipeline: the published tables, and the markers of their versions."""

from __future__ import annotations

from ...table.schema import Schema
from ...table.spec import Layout, TableSpec
from .settings import MARKERS, SnapshotSettings

VERSION, LABEL, WATERMARK, INPUTS, PLANNED_AT = "version", "label", "watermark", "inputs", "planned_at"
MARKER = Schema.parse(
    f"{VERSION} bigint, {LABEL} string, {WATERMARK} timestamp, {INPUTS} string, {PLANNED_AT} timestamp"
)
"""The columns of a marker: number and label of the version, the watermark of its inputs (UTC), the state in which each
input was read (a JSON object: the epoch of a view, the state of a plain table), and when that was decided (UTC)."""


def published_tables(settings: SnapshotSettings) -> tuple[TableSpec, ...]:
    """Return the published tables; each commit replaces the whole content."""
    return tuple(
        TableSpec(f"{settings.pipeline}.{name}", Schema(()), layout=Layout.MERGED, whole=True)
        for name in settings.tables
    )


def marker_table(pipeline: str) -> TableSpec:
    """Return the table of markers: one row per version, published with it. Downstream schedulers wait for the row."""
    return TableSpec(f"{pipeline}.{MARKERS}", MARKER)
