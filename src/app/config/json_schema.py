"""The configuration as JSON Schema, with which editors complete and check a deployment file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ...domain.duration import show_duration
from ..document.value_types import Key, Kind
from ..registry.backends import available as backends
from ..registry.sources import load_source_kind, source_kinds
from ..services import kind as services
from ..services.keys import RETAIN
from .keys import ALERTS, BACKEND, RUN, TELEMETRY, source_keys

_DRAFT = "http://json-schema.org/draft-07/schema#"
_FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{\w+\}"}
_ANY = "*"
"""Stands for the names of a table whose keys are names."""


def json_schema() -> dict[str, Any]:
    """The schema of a deployment file, with the services, sources and backends that are installed."""
    sources = {name: source_keys(load_source_kind(name)) for name in source_kinds()}
    pipelines = {name: services.load_service(name).keys for name in services.available()}
    return {
        "$schema": _DRAFT,
        "title": "A deployment of Headwater",
        "type": "object",
        "additionalProperties": False,
        "required": ["backend"],
        "properties": {
            "backend": _table(BACKEND, {"name": {"enum": list(backends())}, "retain": _table(RETAIN)}),
            "run": _table(RUN),
            "alerts": _table(ALERTS),
            "telemetry": _table(TELEMETRY),
            "sources": _named(_by_choice("kind", sources)),
            "pipelines": _named(_by_choice("service", pipelines)),
        },
    }


def _by_choice(choosing: str, tables: Mapping[str, Mapping[str, Key]]) -> dict[str, Any]:
    """A table whose keys depend on the value of one of them."""
    return {
        "type": "object",
        "required": [choosing],
        "properties": {choosing: {"enum": list(tables)}},
        "allOf": [
            {
                "if": {"required": [choosing], "properties": {choosing: {"const": name}}},
                "then": _table(keys, {choosing: {"const": name}}),
            }
            for name, keys in tables.items()
        ],
    }


def _by_key(forms: Mapping[str, Mapping[str, Key]]) -> dict[str, Any]:
    """A table whose keys depend on which of some keys it has."""
    found = _table(forms[""])
    for name in sorted(filter(None, forms), reverse=True):
        found = {"if": {"required": [name]}, "then": _table(forms[name]), "else": found}
    return {"type": "object", **found}


def _table(keys: Mapping[str, Key], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    properties = {name: _value(key) for name, key in keys.items()} | dict(known or {})
    required = [name for name, key in keys.items() if key.required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _named(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": value}


def _value(key: Key) -> dict[str, Any]:
    default = _shown(key.default)
    return {
        "description": key.kind.expects,
        **({} if key.required or default is None else {"default": default}),
        **_of_kind(key.kind),
    }


def _of_kind(kind: Kind) -> dict[str, Any]:
    if kind.forms is not None:
        return _by_key(kind.forms())
    if kind.inside is not None and "additionalProperties" not in kind.json:
        inner = kind.inside({_ANY: {}})
        table = _named(_of_kind(inner[_ANY].kind)) if _ANY in inner else _table(inner)
        return table if kind.json.get("type") == "object" else {"anyOf": [dict(kind.json), table]}
    if kind.from_text is not None and "string" not in kind.json.get("type", "string"):
        return {"anyOf": [dict(kind.json), _FROM_ENVIRONMENT]}
    return dict(kind.json)


def _shown(default: Any) -> Any:
    """A default as a file has it; None if it is not shown."""
    if isinstance(default, timedelta):
        return show_duration(default)
    return default if isinstance(default, str | int | float) else None
