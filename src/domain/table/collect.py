"""Collecting a few rows from an engine, for planning. The domain collects rows in no other way."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ..errors import ConfigError

_LIMIT = 100_000


def collect_small(frame: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    """The rows of a small aggregate, each by column name.

    Raises:
        ConfigError: there are more than 100,000 rows; collecting them would not scale.
    """
    rows = frame.head(_LIMIT + 1).collect(backend="pyarrow").rows(named=True)
    if len(rows) > _LIMIT:
        raise ConfigError(
            f"more than {_LIMIT} rows where a summary was expected; make segments longer or epochs smaller"
        )
    return rows
