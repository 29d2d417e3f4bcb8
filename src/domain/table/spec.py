"""The specification of a table: its columns, its key, its merge rules and its layout."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from attrs import field, frozen

from ..errors import ConfigError, SchemaConflict
from .change import Change
from .column_checks import check_flat
from .merge import ColumnRule, Latest, Max, Min, Replace, Sum
from .schema import Schema

_T = TypeVar("_T")
REBUILD = (
    "build it again with `headwater rebuild` (frames of a program cannot be read again), or give the pipeline another"
    " name"
)
"""The remedy if the tables of a pipeline cannot be continued with its settings."""
RETYPING = "give the column another name, or leave it out of one version"
"""The remedy if a store cannot change the type of a column between two versions of a `whole` table."""


class Layout(Enum):
    """The storage layout of a keyed table; reads return the same rows with either."""

    LOG = "log"
    """Each epoch appends its changes; they are merged on read and compacted from time to time. Cheapest to write."""
    MERGED = "merged"
    """Changes are merged at each commit, so that any other engine can read the table."""


@frozen
class TableSpec:
    """A table of one pipeline.

    Args:
        name: unique within the deployment, ``pipeline.table``.
        schema: all columns.
        key: the columns that identify a row, never null; empty for a table that is only appended to or overwritten.
        rules: merge rules by column; `Replace` if not set.
        groups: sequence groups; their columns have no other rule.
        partition_by: partition columns; they are part of the key.
        layout: the storage layout.
        whole: each commit overwrites the table, with its own columns. A version is read in the columns that it was
            written in, and `schema` is not used.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    rules: Mapping[str, ColumnRule] = field(factory=dict)
    groups: tuple[Latest, ...] = field(default=(), converter=tuple[Latest, ...])
    partition_by: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    layout: Layout = Layout.LOG
    whole: bool = False

    def __attrs_post_init__(self) -> None:
        grouped = [name for group in self.groups for name in (*group.by, *group.columns)]
        ruled = (*self.key, *self.rules, *grouped)
        for name in (*ruled, *self.partition_by):
            if name not in self.schema:
                raise ConfigError(
                    f"table {self.name}: {name!r} is not a column; there are: {', '.join(self.schema.names)}"
                )
        for name in dict.fromkeys((*self.key, *self.partition_by)):
            check_flat(f"table {self.name}: key column {name!r}", self.schema[name])
        if twice := {name for name in ruled if ruled.count(name) > 1}:
            raise ConfigError(f"table {self.name}: more than one rule for {', '.join(sorted(twice))}")
        # A row must never move between partitions, or merging would have to read all of them.
        if self.key and (outside := set(self.partition_by) - set(self.key)):
            raise ConfigError(f"table {self.name}: partition columns {sorted(outside)} are not part of the key")

    @property
    def column_rules(self) -> dict[str, ColumnRule]:
        """The rule of each column that is neither in the key nor in a sequence group, in schema order."""
        elsewhere = {*self.key, *(name for group in self.groups for name in (*group.by, *group.columns))}
        return {name: self.rules.get(name, Replace()) for name in self.schema.names if name not in elsewhere}

    @property
    def newest_counts(self) -> bool:
        """Whether the newest row of a key is its row, as it is: every column is replaced."""
        return not self.groups and all(isinstance(rule, Replace) for rule in self.column_rules.values())

    @property
    def adds_up(self) -> bool:
        """Whether some rows of a key can be folded before the others, in any order: all columns add up."""
        return not self.groups and all(isinstance(rule, Sum | Max | Min) for rule in self.column_rules.values())

    def check_takes(self, change: Change) -> None:
        """Check that a change can be applied to this table.

        Raises:
            ConfigError: the table has no key, and the change merges or deletes rows; or the table is `whole`, and the
                change does not overwrite it.
        """
        if self.whole and change.overwrite is None and not change.empty:
            raise ConfigError(f"table {self.name} is replaced as a whole: overwrite it")
        if not self.key and not (change.merge is change.delete is None):
            raise ConfigError(f"table {self.name} has no key, so it can only be appended to or overwritten")

    def check_compared(self) -> None:
        """Check that two versions can be compared.

        Raises:
            ConfigError: the table has no key.
        """
        if not self.key:
            raise ConfigError(f"table {self.name} has no key, so its rows cannot be matched between two versions")

    def with_schema(self, schema: Schema) -> TableSpec:
        """This table with other columns and without its merge rules; the key and the partitions stay."""
        by, layout = self.partition_by, self.layout
        held = self.schema.select([name for name in {*self.key, *by} if name not in schema])
        schema = schema.plus(*held.columns)
        return TableSpec(self.name, schema, self.key, partition_by=by, layout=layout, whole=self.whole)

    @property
    def _parts(self) -> dict[str, str]:
        """What must stay as it is while the table is continued, by its name in messages."""
        columns = {f"`{name}`": self.schema[name].ddl for name in self.schema.names}
        return {**columns, "key": str(self.key), "partitions": str(self.partition_by)}

    def added_columns(self, other: TableSpec) -> Schema:
        """The columns that `other` has and this one lacks.

        Raises:
            SchemaConflict: they differ by more than added columns.
        """
        if self.whole != other.whole:
            was = "" if self.whole else "not "
            raise SchemaConflict(f"table {self.name} was {was}replaced as a whole at each commit until now: {REBUILD}")
        if self.whole:
            return Schema(())
        stored, given = self._parts, other._parts
        changed = [part for part in stored if stored[part] != given.get(part)]
        if changed and not any(part in given for part in changed):
            there = ", ".join(f"{part} {stored[part]}" for part in changed)
            raise SchemaConflict(
                f"table {self.name} has {there}, which these settings lack: they were edited, or another program has"
                " added it. Add it to `schema`, or use the newer settings if the service makes columns by them. Only"
                f" new columns can be added; to drop one, {REBUILD}"
            )
        if changed:
            kept, now = (", ".join(f"{part} {each.get(part, 'none')}" for part in changed) for each in (stored, given))
            raise SchemaConflict(
                f"table {self.name} is kept with {kept} but {now} is wanted; only new columns can be added: {REBUILD}"
            )
        return other.schema.without(self.schema.names)


class Ensured(dict[str, _T]):
    """A store's state for each ensured table, by name."""

    def __missing__(self, table: str) -> _T:
        """Raise the error for an unknown table.

        Raises:
            ConfigError: always; the message lists the known tables.
        """
        raise ConfigError(f"there is no table {table}; ensure it first. Known: {', '.join(self) or 'none'}")
