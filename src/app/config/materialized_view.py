"""The keys of a materialized view, and the settings that they make."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...domain.materialized_view import ALIGN, ALL, ViewOf, ViewSettings, check_query
from .kinds import DURATION, SCHEMA, SOME_TEXTS, TABLE, TEXT, Key, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .document import Document
    from .lines import KeyPath

MATERIALIZED_VIEW = {
    "inputs": Key(TABLE, required=True),
    "key": Key(SOME_TEXTS, required=True),
    "sql": Key(TEXT, required=True),
    "changes": Key(TABLE, {}),
    "schema": Key(SCHEMA),
    "align": Key(choice(*ALIGN)),
    "lag": Key(DURATION, timedelta(minutes=10)),
}


def materialized_view(document: Document, path: KeyPath, given: Mapping[str, Any]) -> ViewSettings:
    """The settings of a materialized view, each key checked at its own place.

    Args:
        document: what they stand in.
        path: of the pipeline.
        given: its values.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    inputs = {name: _input(document, (*path, "inputs", name)) for name in given["inputs"]}
    document.built((*path, "sql"), lambda: check_query(given["sql"], inputs))
    changes = {name: _change(document, (*path, "changes", name), inputs) for name in given["changes"]}
    own = {name: given[name] for name in ("key", "sql", "schema", "align", "lag")}
    return document.built(path, lambda: ViewSettings(str(path[-1]), inputs, changes=changes, **own))


def materialized_view_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a materialized view's tables, as far as a pipeline has them."""
    if pipeline.get("service") != "materialized_view":
        return {}
    named = ((name, pipeline.get(name)) for name in ("inputs", "changes"))
    return {name: dict.fromkeys(given, Key(TEXT)) for name, given in named if isinstance(given, dict)}


def _input(document: Document, path: KeyPath) -> ViewOf:
    pipeline, _, view = str(document.value(path, Key(TEXT, required=True))).partition(".")
    return ViewOf(pipeline, view or None)


def _change(document: Document, path: KeyPath, inputs: Mapping[str, ViewOf]) -> str:
    sql = str(document.value(path, Key(TEXT, required=True)))
    if sql != ALL:
        document.built(path, lambda: check_query(sql, inputs))
    return sql
