"""The keys of a materialized view, and how they become its settings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....domain.service.materialized_view import ALIGN, ALL, ViewOf, ViewSettings, check_query
from ...document.value_types import DURATION, SCHEMA, SOME_TEXTS, TABLE, TEXT, Key, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...document.document import Document
    from ...document.lines import KeyPath

MATERIALIZED_VIEW = {
    "inputs": Key(TABLE, required=True),
    "key": Key(SOME_TEXTS, required=True),
    "sql": Key(TEXT, required=True),
    "changes": Key(TABLE, {}),
    "schema": Key(SCHEMA),
    "align": Key(choice(*ALIGN)),
    "lag": Key(DURATION, timedelta(minutes=10)),
}


def materialized_view(document: Document, path: KeyPath, values: Mapping[str, Any]) -> ViewSettings:
    """Read the settings of a materialized view; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    inputs = {name: _input(document, (*path, "inputs", name)) for name in values["inputs"]}
    document.build((*path, "sql"), lambda: check_query(values["sql"], inputs))
    changes = {name: _change(document, (*path, "changes", name), inputs) for name in values["changes"]}
    own = {name: values[name] for name in ("key", "sql", "schema", "align", "lag")}
    return document.build(path, lambda: ViewSettings(str(path[-1]), inputs, changes=changes, **own))


def materialized_view_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the tables of a materialized view that are in the file."""
    if pipeline.get("service") != "materialized_view":
        return {}
    named = ((name, pipeline.get(name)) for name in ("inputs", "changes"))
    return {name: dict.fromkeys(values, Key(TEXT)) for name, values in named if isinstance(values, dict)}


def _input(document: Document, path: KeyPath) -> ViewOf:
    pipeline, _, view = str(document.value(path, Key(TEXT, required=True))).partition(".")
    return ViewOf(pipeline, view or None)


def _change(document: Document, path: KeyPath, inputs: Mapping[str, ViewOf]) -> str:
    sql = str(document.value(path, Key(TEXT, required=True)))
    if sql != ALL:
        document.build(path, lambda: check_query(sql, inputs))
    return sql
