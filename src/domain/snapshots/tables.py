"""The tables that a snapshots pipeline keeps: the published ones, and the markers of their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema import Schema
from ..table import Layout, TableSpec

if TYPE_CHECKING:
    from .settings import SnapshotSettings

MARKERS = "markers"
VERSION, LABEL, WATERMARK, INPUTS, PLANNED_AT = "version", "label", "watermark", "inputs", "planned_at"
MARKER = Schema.parse(
    f"{VERSION} bigint, {LABEL} string, {WATERMARK} timestamp, {INPUTS} string, {PLANNED_AT} timestamp"
)
"""Of a version: its number, the label, the inputs' watermark (UTC), what each input was read at (a JSON object: the
epoch of a view, the state of a plain table), and when that was decided (UTC)."""


def published(settings: SnapshotSettings) -> tuple[TableSpec, ...]:
    """The published tables: each commit replaces one as a whole."""
    return tuple(
        TableSpec(f"{settings.pipeline}.{name}", Schema(()), layout=Layout.MERGED, whole=True)
        for name in settings.tables
    )


def markers(pipeline: str) -> TableSpec:
    """One row a version, added with its publication: what schedulers downstream wait for."""
    return TableSpec(f"{pipeline}.{MARKERS}", MARKER)
