"""The keys of a snapshots pipeline, and the settings that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.snapshots import WHEN, PlainTable, SnapshotSettings, ViewOf, checked_query
from .kinds import DURATION, PATH, SOME_TEXTS, TABLE, TEXT, Key, choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...domain.snapshots import Input
    from .document import Document
    from .lines import KeyPath

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
    document: Document, path: KeyPath, given: Mapping[str, Any], resolved: Callable[[str], str]
) -> SnapshotSettings:
    """The settings of a snapshots pipeline, each key checked at its own place.

    Args:
        document: what they stand in.
        path: of the pipeline.
        given: its values.
        resolved: a path of the file as seen from anywhere.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    inputs = {name: _input(document, (*path, "inputs", name), resolved) for name in given["inputs"]}
    tables = {name: _query(document, (*path, "tables", name), inputs) for name in given["tables"]}
    keys = {name: document.value((*path, "keys", name), Key(SOME_TEXTS, required=True)) for name in given["keys"]}
    own = {name: given[name] for name in ("every", "when", "longest_query")}
    return document.built(path, lambda: SnapshotSettings(str(path[-1]), inputs, tables, keys=keys, **own))


def snapshots_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a snapshots pipeline's tables, as far as a pipeline has them."""
    shape: dict[str, Any] = {}
    if isinstance(inputs := pipeline.get("inputs"), dict):
        shape["inputs"] = {name: _PLAIN_TABLE if isinstance(at, dict) else Key(TEXT) for name, at in inputs.items()}
    if pipeline.get("service") == "snapshots" and isinstance(tables := pipeline.get("tables"), dict):
        shape["tables"] = dict.fromkeys(tables, Key(TEXT))
    return shape


def _query(document: Document, path: KeyPath, inputs: Iterable[str]) -> str:
    sql = str(document.value(path, Key(TEXT, required=True)))
    document.built(path, lambda: checked_query(sql, inputs))
    return sql


def _input(document: Document, path: KeyPath, resolved: Callable[[str], str]) -> Input:
    if isinstance(document.table(path[:-1])[str(path[-1])], dict):
        said = document.section(path, _PLAIN_TABLE)
        return PlainTable(resolved(said["path"]), said["format"])
    pipeline, _, view = document.value(path, Key(TEXT, required=True)).partition(".")
    return ViewOf(pipeline, view or None)
