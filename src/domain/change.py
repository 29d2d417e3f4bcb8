"""What a service wants done to one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import narwhals as nw


@frozen(eq=False)
class Change:
    """Rows to append, rows to merge, keys to delete, or a whole new content: one commit.

    Args:
        append: rows whose keys the table is known not to hold; stored as they are.
        merge: rows that meet the stored ones by the table's merge rules; several of one key are folded in the order
            of their `_position` column, where there is one.
        delete: key columns of rows to remove; keys the table does not hold are passed over.
        overwrite: the whole new content; excludes the others.
        load: the whole new content too, as rows that meet each other by the table's merge rules, as those of `merge`
            do; they may be many, and are stored in files of full size. Excludes the others.

    No key may stand in more than one of `append`, `merge` and `delete`. A part left None does nothing.
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
        """Whether nothing of the rows before is left."""
        return self.overwrite is not None or self.load is not None

    @property
    def empty(self) -> bool:
        """Whether the change asks for nothing at all."""
        return self.append is self.merge is self.delete is self.overwrite is self.load is None


@frozen
class Between:
    """Values from `low` to `high`, both included."""

    low: Any
    high: Any


@define(eq=False)
class Matching:
    """Which rows a read is after, so that it costs what it returns.

    Args:
        keys: a frame; a row is returned iff it equals one of its rows in all of its columns. Null equals nothing.
        within: literals that every wanted row satisfies, by column: a tuple of values, or `Between`. They prune
            files and partitions; rows outside them are not returned.
    """

    keys: nw.LazyFrame[Any] | None = None
    within: Mapping[str, tuple[Any, ...] | Between] = field(factory=dict)
