"""The keys of a snapshots pipeline, and how they become its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....domain.service.snapshots import WHEN, PlainTable, SnapshotSettings, ViewOf, parse_query
from ...document.value_types import DURATION, PATH, SOME_TEXTS, TABLE, TEXT, Key, choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ....domain.service.snapshots import Input
    from ...document.document import Document
    from ...document.lines import KeyPath

SNAPSHOTS = {
    "inputs": Key(TABLE, required=True),
    "tables": Key(TABLE, required=True),
    "every": Key(DURATION, required=True),
    "when": Key(choice(*WHEN), "clock"),
    "keys": Key(TABLE, {}),
    "longest_query": Key(DURATION),
}
_PLAIN_TABLE = {"path": Key(PATH, required=True), "format": Key(TEXT, "parquet")}


def snapshots(
    document: Document, path: KeyPath, values: Mapping[str, Any], resolve: Callable[[str], str]
) -> SnapshotSettings:
    """Read the settings of a snapshots pipeline; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.
        resolve: makes a path of the file absolute.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    inputs = {name: _input(document, (*path, "inputs", name), resolve) for name in values["inputs"]}
    tables = {name: _query(document, (*path, "tables", name), inputs) for name in values["tables"]}
    keys = {name: document.value((*path, "keys", name), Key(SOME_TEXTS, required=True)) for name in values["keys"]}
    own = {name: values[name] for name in ("every", "when", "longest_query")}
    return document.build(path, lambda: SnapshotSettings(str(path[-1]), inputs, tables, keys=keys, **own))


def snapshots_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the tables of a snapshots pipeline that are in the file."""
    shape: dict[str, Any] = {}
    if isinstance(inputs := pipeline.get("inputs"), dict):
        shape["inputs"] = {name: _PLAIN_TABLE if isinstance(at, dict) else Key(TEXT) for name, at in inputs.items()}
    if pipeline.get("service") == "snapshots" and isinstance(tables := pipeline.get("tables"), dict):
        shape["tables"] = dict.fromkeys(tables, Key(TEXT))
    return shape


def _query(document: Document, path: KeyPath, inputs: Iterable[str]) -> str:
    sql = str(document.value(path, Key(TEXT, required=True)))
    document.build(path, lambda: parse_query(sql, inputs))
    return sql


def _input(document: Document, path: KeyPath, resolve: Callable[[str], str]) -> Input:
    if isinstance(document.table(path[:-1])[str(path[-1])], dict):
        section = document.section(path, _PLAIN_TABLE)
        return PlainTable(resolve(section["path"]), section["format"])
    pipeline, _, view = document.value(path, Key(TEXT, required=True)).partition(".")
    return ViewOf(pipeline, view or None)
