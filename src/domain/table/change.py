"""Changes to one table, and filters for reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
from attrs import define, field, frozen

from ..errors import ConfigError

POSITION = "_position"
"""bigint: the order of arrival of rows within their batch or change."""


@frozen(eq=False)
class Change:
    """Rows to append, rows to merge, keys to delete, or a new content of the table: one commit.

    Args:
        append: rows whose keys are known not to be in the table; stored unchanged.
        merge: rows to merge with the stored rows by the table's merge rules. Several rows of one key are folded in
            the order of their `_position` column, if any.
        delete: key columns of rows to remove; keys that are not in the table are ignored.
        overwrite: the new content of the table; excludes the other parts.
        load: the new content of the table, as rows that are merged with each other by the table's merge rules. It may
            be large and is written to full-size files. Excludes the other parts.

    A key may be in only one of `append`, `merge` and `delete`. A part that is None does nothing.
    """

    append: nw.LazyFrame[Any] | None = None
    merge: nw.LazyFrame[Any] | None = None
    delete: nw.LazyFrame[Any] | None = None
    overwrite: nw.LazyFrame[Any] | None = None
    load: nw.LazyFrame[Any] | None = None

    def __attrs_post_init__(self) -> None:
        both = self.overwrite is not None and self.load is not None
        if both or (self.replaces and not (self.append is self.merge is self.delete is None)):
            raise ConfigError("a change that overwrites or loads a table does nothing else")

    @property
    def replaces(self) -> bool:
        """Whether it removes all existing rows."""
        return self.overwrite is not None or self.load is not None

    @property
    def added(self) -> nw.LazyFrame[Any] | None:
        """The rows that are stored unchanged: those to append, or those of the new content."""
        return self.append if self.overwrite is None else self.overwrite

    @property
    def empty(self) -> bool:
        """Whether the change does nothing."""
        return self.append is self.merge is self.delete is self.overwrite is self.load is None


@frozen
class Between:
    """Values from `low` to `high`, inclusive."""

    low: Any
    high: Any


@define(eq=False)
class Matching:
    """A filter on the rows of a read, so that its cost is that of the rows it returns.

    Args:
        keys: a frame; a row is returned if it equals one of the frame's rows in all columns of the frame. Null equals
            nothing.
        within: literals that each returned row satisfies, by column: a tuple of values, or `Between`. They prune files
            and partitions.
    """

    keys: nw.LazyFrame[Any] | None = None
    within: Mapping[str, tuple[Any, ...] | Between] = field(factory=dict)
