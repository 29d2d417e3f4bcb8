"""Conditions of a read, for every engine: which apply before rows are folded, and how literals are compared."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from ...domain.epoch.watermark import instant
from ...domain.table.change import Matching
from ...domain.table.schema import DataType


def parted(matching: Matching, key: Collection[str]) -> tuple[Matching, Matching]:
    """Split conditions into those to apply before folding by key and those after, as other columns may change."""
    early = {name: values for name, values in matching.within.items() if name in key}
    late = {name: values for name, values in matching.within.items() if name not in key}
    if matching.keys is None or set(key).issuperset(matching.keys.collect_schema().names()):
        return Matching(matching.keys, early), Matching(None, late)
    return Matching(None, early), Matching(matching.keys, late)


def literal(value: Any, data_type: DataType) -> Any:
    """A literal in the form in which values of its type are compared; timestamps without a zone are UTC."""
    return instant(value) if data_type.name == "timestamp" and isinstance(value, datetime) else value
