"""Whether columns are a key of a query's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
from attrs import frozen

from .collect import collect_small

_ROWS, _KEYS, _NULLS = "_headwater_rows", "_headwater_keys", "_headwater_nulls"


@frozen
class KeyFaults:
    """The faults of a key.

    Args:
        nulls: whether a key column is null in some rows.
        shared: a key that several rows have, and their number, for messages; empty if each key is of one row.
    """

    nulls: bool
    shared: str


def key_faults(rows: nw.LazyFrame[Any], key: Sequence[str]) -> KeyFaults:
    """The faults of a key over some rows. Persist the rows first."""
    counted = rows.select(*key, lacks_key(key).cast(nw.Int64).alias(_NULLS)).group_by(*key)
    of_keys = counted.agg(nw.len().alias(_ROWS), nw.col(_NULLS).max())
    (found,) = collect_small(
        of_keys.select(nw.len().alias(_KEYS), nw.col(_ROWS).max(), nw.col(_NULLS).max().alias(_NULLS))
    )
    shared = bool(found[_KEYS]) and found[_ROWS] > 1
    return KeyFaults(bool(found[_NULLS]), _first_shared(of_keys, key) if shared else "")


def _first_shared(of_keys: nw.LazyFrame[Any], key: Sequence[str]) -> str:
    (found,) = collect_small(of_keys.filter(nw.col(_ROWS) > 1).sort(*key).head(1))
    values = ", ".join(f"{name} = {_text(found[name])}" for name in key)
    return f"{values} in {found[_ROWS]} rows"


def _text(value: object) -> str:
    return f"{value!r:.60}" if isinstance(value, str) else f"{value!s:.60}"


def lacks_key(key: Sequence[str]) -> nw.Expr:
    """Whether a column of the key is null in a row."""
    return nw.any_horizontal(*(nw.col(name).is_null() for name in key), ignore_nulls=False)
