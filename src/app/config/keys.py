"""The keys of a deployment file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from ...domain.source.changelog.settings import BEFORE, TIME_UNITS, TRANSACTIONS
from ..deployment.deployment import AlertSettings, BackendSettings, RunSettings, TelemetrySettings
from ..document.document import Document
from ..document.environment import shape
from ..document.value_types import (
    ADDRESS,
    COLUMN,
    DURATION,
    LIMIT,
    OPTIONS,
    PATH,
    POSITIVE_DURATION,
    SCHEMA,
    SETTINGS,
    TABLE,
    TEXT,
    TEXTS,
    WEBHOOK,
    ZONE,
    Key,
    choice,
    keys_of,
    one_text,
    whole,
)
from ..registry.installed import load_each
from ..registry.sources import SourceKind, load_source_kind, source_kinds
from ..services import kind as services
from ..services.keys import RETAIN

RUN = keys_of(
    RunSettings,
    poll=POSITIVE_DURATION,
    retries=whole(0),
    retry_wait=DURATION,
    retry_max_wait=DURATION,
    dead_letter_limit=LIMIT,
    dead_letter_stop=whole(0),
)
ALERTS = keys_of(AlertSettings, webhook=WEBHOOK, check=POSITIVE_DURATION, timeout=POSITIVE_DURATION)
TELEMETRY = keys_of(TelemetrySettings, endpoint=ADDRESS, service_name=TEXT, metrics_every=POSITIVE_DURATION)
BACKEND = {
    "name": Key(TEXT, required=True),
    **keys_of(
        BackendSettings,
        path=PATH,
        compact_every=whole(0),
        retain=TABLE,
        expire_every=whole(0),
        file_mb=whole(1),
        engine=one_text("one of local, spark, auto"),
        local_mb=whole(1),
        spark=OPTIONS,
    ),
}
ANY_SOURCE = {
    "kind": Key(TEXT, required=True),
    "schema": Key(SCHEMA, required=True),
    "event_time": Key(COLUMN),
    "watermark_delay": Key(DURATION, timedelta()),
    "idle_after": Key(DURATION),
    "row_kind": Key(COLUMN),
    "time_zone": Key(ZONE, "UTC"),
}
CHANGES = {
    "tables": Key(TEXTS, ()),
    "key": Key(TEXTS, ()),
    "metadata": Key(SETTINGS, {}),
    "before": Key(choice(*BEFORE), "required"),
    "time_unit": Key(choice(*TIME_UNITS)),
    "transactions": Key(choice(*TRANSACTIONS)),
}


def keys_within(written: Document) -> dict[str, Any]:
    """Return every key that the environment may override, nested like the file."""
    tree, kinds = written.tree, load_each(source_kinds(), load_source_kind)
    _check_kinds(written, "sources", "kind", source_kinds(), load_source_kind)
    _check_kinds(written, "pipelines", "service", services.available(), services.load_service)
    return {
        "run": RUN,
        "alerts": ALERTS,
        "telemetry": TELEMETRY,
        "backend": {**shape(BACKEND, tree.get("backend")), "retain": RETAIN},
        "sources": {name: _source_shape(source, kinds) for name, source in _tables(tree, "sources")},
        "pipelines": {name: _pipeline_shape(table) for name, table in _tables(tree, "pipelines")},
    }


def _check_kinds(
    written: Document, tables: str, key: str, known: tuple[str, ...], load: Callable[[str], object]
) -> None:
    """Refuse an installed kind that the file names and that cannot be loaded."""
    for name, table in _tables(written.tree, tables):
        if isinstance(table, dict) and (kind := str(table.get(key))) in known:
            written.build((tables, name, key), partial(load, kind))


def source_keys(kind: SourceKind[Any]) -> dict[str, Key]:
    """Return all keys of a kind of source."""
    if not kind.formats:
        return {**ANY_SOURCE, **kind.keys}
    return {**ANY_SOURCE, **CHANGES, "format": Key(choice(*kind.formats), kind.formats[0]), **kind.keys}


def _source_shape(source: Any, kinds: Mapping[str, SourceKind[Any]]) -> dict[str, Any]:
    """Return the keys of a source: of every kind, as a variable may set the kind; first of all those of its own."""
    own = kinds.get(str(source.get("kind"))) if isinstance(source, dict) else None
    keys: dict[str, Key] = {}
    for kind in (*kinds.values(), *([own] if own else [])):
        keys |= source_keys(kind)
    return shape(keys, source)


def _tables(tree: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    table = tree.get(name)
    return list(table.items()) if isinstance(table, dict) else []


def _pipeline_shape(pipeline: Any) -> dict[str, Any]:
    if not isinstance(pipeline, dict):
        return {}
    known, named = services.available(), pipeline.get("service")
    kinds = load_each([named] if named in known else known, services.load_service).values()
    return shape({name: key for kind in kinds for name, key in kind.keys.items()}, pipeline)
