"""A deployment file to start from: a working example of a service, and every other key as a comment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from ...domain.duration import show_duration
from ...domain.errors import ConfigError, did_you_mean
from ...domain.source.dead_letter import Limit
from ..document.document import quoted_key
from ..document.value_types import Key
from ..registry.sources import load_source_kind
from ..services import kind as services
from .keys import ALERTS, BACKEND, RUN, TELEMETRY, source_keys

_ORDERS = {
    "kind": "files",
    "path": "in",
    "format": "json",
    "schema": "order_id bigint, customer_id bigint, state string, amount decimal(12,2), ordered_at timestamp",
    "event_time": "ordered_at",
    "watermark_delay": "1m",
}
_STATES = {
    "service": "retraction",
    "source": "orders",
    "group": ["state"],
    "measures": {"orders": "count(*)", "amount": "sum(amount)"},
    "updated_at": "ordered_at",
}
_LATEST = {"source": "orders", "columns": ["state", "amount"], "sequence": ["ordered_at"]}
EXAMPLES: dict[str, dict[str, dict[str, Any]]] = {
    "ranking": {
        "orders_ranked": {
            "service": "ranking",
            "source": "orders",
            "group": ["customer_id"],
            "id": ["order_id"],
            "order_by": "ordered_at",
        }
    },
    "retraction": {"order_states": _STATES},
    "cumulate": {
        "orders_today": {
            "service": "cumulate",
            "source": "orders",
            "step": "1m",
            "measures": {"orders": "count(*)", "customers": "count(distinct customer_id)"},
        }
    },
    "wide_table": {"order_rows": {"service": "wide_table", "key": ["order_id"], "topics": {"orders": _LATEST}}},
    "snapshots": {
        "order_states": _STATES,
        "states_by_size": {
            "service": "snapshots",
            "inputs": {"states": "order_states.totals"},
            "every": "15m",
            "tables": {"largest": "SELECT state, orders FROM states WHERE orders > 100"},
        },
    },
    "bulk_merge": {
        "orders_merged": {
            "service": "bulk_merge",
            "changelog": "orders",
            "key": ["order_id"],
            "delay": "1m",
            "bulk": {"path": "history", "search_ts": "2024-01-01T00:00:00Z"},
        }
    },
    "materialized_view": {
        "order_states": _STATES,
        "large_states": {
            "service": "materialized_view",
            "inputs": {"states": "order_states"},
            "key": ["state"],
            "sql": "SELECT state, orders FROM states WHERE orders > 100",
        },
    },
}
"""The pipelines of an example, by service; the last one is of that service."""


def template(service: str, backend: str) -> str:
    """A deployment file with an example of a service.

    Raises:
        ConfigError: there is no such service, or it belongs to another package, which has its own examples.
    """
    if service not in EXAMPLES:
        known = ", ".join(EXAMPLES)
        raise ConfigError(
            f"there is no example of service {service!r}; there are: {known}{did_you_mean(service, EXAMPLES)}"
        )
    return "\n".join(_lines(service, backend)) + "\n"


def _lines(service: str, backend: str) -> Iterator[str]:
    yield f"# A deployment with the service {service}. Check it: headwater check FILE. Run it: headwater run FILE"
    yield "# Commented lines show the other keys: with their defaults, or with what their values are."
    yield from _section("backend", BACKEND, {"name": backend, **({} if backend == "memory" else {"path": "lake"})})
    yield from _section("run", RUN, {})
    yield from _section("alerts", ALERTS, {})
    yield from _section("telemetry", TELEMETRY, {})
    yield from _section("sources.orders", source_keys(load_source_kind("files")), _ORDERS)
    for name, values in EXAMPLES[service].items():
        yield from _section(f"pipelines.{name}", services.load_service(values["service"]).keys, values)


def _section(name: str, keys: Mapping[str, Key], values: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    for key, value in values.items():
        yield f"{key} = {_toml(value)}"
    for key, described in keys.items():
        if key not in values:
            yield _comment(key, described)


def _comment(name: str, key: Key) -> str:
    default = key.default
    if isinstance(default, timedelta):
        default = show_duration(default)
    elif isinstance(default, Limit):
        default = default.text
    shown = f" = {_toml(default)}  #" if default and isinstance(default, str | int | tuple) else ":"
    return f"# {name}{shown} {key.kind.expects}"


def _toml(value: Any) -> str:
    """A value as TOML; a table on one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{quoted_key(name)} = {_toml(each)}" for name, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
