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
        shared: whether several rows have the same key.
    """

    nulls: bool
    shared: bool


def key_faults(rows: nw.LazyFrame[Any], key: Sequence[str]) -> KeyFaults:
    """The faults of a key over some rows. Persist the rows first."""
    counted = rows.select(*key, lacks_key(key).cast(nw.Int64).alias(_NULLS)).group_by(*key)
    of_keys = counted.agg(nw.len().alias(_ROWS), nw.col(_NULLS).max())
    (found,) = collect_small(
        of_keys.select(nw.len().alias(_KEYS), nw.col(_ROWS).max(), nw.col(_NULLS).max().alias(_NULLS))
    )
    return KeyFaults(bool(found[_NULLS]), bool(found[_KEYS]) and found[_ROWS] > 1)


def lacks_key(key: Sequence[str]) -> nw.Expr:
    """Whether a column of the key is null in a row."""
    return nw.any_horizontal(*(nw.col(name).is_null() for name in key), ignore_nulls=False)
