"""Whether columns name the rows of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from .collect import collect_small

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROWS, _KEYS, _NULLS = "_rows", "_keys", "_nulls"


@frozen
class KeyFaults:
    """What is wrong with a key.

    Args:
        nulls: a column of it is null in some rows.
        shared: some rows share one.
    """

    nulls: bool
    shared: bool


def key_faults(rows: nw.LazyFrame[Any], key: Sequence[str]) -> KeyFaults:
    """What is wrong with the key of rows; persist them first."""
    missing = nw.any_horizontal(*(nw.col(name).is_null() for name in key), ignore_nulls=False)
    counted = rows.select(*key, missing.cast(nw.Int64).alias(_NULLS)).group_by(*key)
    of_keys = counted.agg(nw.len().alias(_ROWS), nw.col(_NULLS).max())
    (found,) = collect_small(
        of_keys.select(nw.len().alias(_KEYS), nw.col(_ROWS).max(), nw.col(_NULLS).max().alias(_NULLS))
    )
    return KeyFaults(bool(found[_NULLS]), bool(found[_KEYS]) and found[_ROWS] > 1)
