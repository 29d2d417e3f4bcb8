"""The one way by which rows leave an engine: a few of them, for planning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    import narwhals as nw

_LIMIT = 100_000


def collect_small(frame: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    """The rows of a tiny aggregate, by column name.

    Raises:
        ConfigError: it was no tiny aggregate; collecting it would not scale.
    """
    rows = frame.head(_LIMIT + 1).collect(backend="pyarrow").rows(named=True)
    if len(rows) > _LIMIT:
        raise ConfigError(
            f"more than {_LIMIT} rows where a summary was expected; make segments longer or epochs smaller"
        )
    return rows
