"""What is learned from a sample: the holes in its text, and the columns that they fill."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from attrs import define, field

from ....domain.epoch.batch import ABSENT
from ....domain.source.changelog.tables import Tables
from ....domain.source.conversion import Undecodable
from ....domain.source.presence import UNAVAILABLE, Presence
from ....domain.source.record_spec import RecordSpec
from ....domain.table.schema import DataType, column
from .cell import SCALAR, Convert, Writing, cell
from .sample import Node, Unlearnable
from .template import Hole

Image = dict[str, pl.Expr]
"""The columns of a row image that are not null."""

_UNSENT = frozenset({"string", "binary"})
"""The types of which Debezium's placeholder for a value that was not sent may be a value."""
_TWO_WAYS = "a field is taken in two ways"

BIGINT, STRING, TIMESTAMP = (column("x", ddl).type for ddl in ("bigint", "string", "timestamp"))


@define(eq=False)
class Draft:
    """A shape while it is read off a sample.

    Args:
        spec: the spec of the records.
        root: the sample.
        known: by column, the latest value that is not null: how its values are written.
        fixed: where values begin that no column takes, and that are the same in all samples of the shape.
    """

    spec: RecordSpec
    root: Node
    known: dict[str, Node]
    fixed: frozenset[int] = frozenset()
    kind: str = ""
    new: Image = field(factory=dict)
    old: Image | None = None
    passed_over: str | None = None
    values: dict[str, tuple[int, Convert]] = field(factory=dict)
    _captured: dict[int, Hole] = field(factory=dict)
    _kept: set[int] = field(factory=set)
    _whole: Node = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._whole = self.root

    def open(self, payload: Node) -> None:
        """Let the root be the message inside an envelope, which is a part of the shape."""
        self._kept |= {leaf.start for leaf in self.root.leaves() if leaf.start < payload.start}
        self.root = payload

    def keep(self, node: Node | None) -> Node | None:
        """Let a value be a part of the shape: another value is another shape.

        Raises:
            Unlearnable: a column takes all of it, so it differs from record to record.
        """
        for leaf in node.leaves() if node else ():
            if leaf.start in self._captured:
                raise Unlearnable(_TWO_WAYS)
            self._kept.add(leaf.start)
        return node

    def given(self, node: Node | None) -> Node | None:
        """The value; None if there is none, or null, which is then a part of the shape."""
        if node is not None and node.kind != "null":
            return node
        self.keep(node)
        return None

    def word(self, *path: str | int) -> str | None:
        """The string at a path, as a part of the shape; None if there is none, or null.

        Raises:
            Unlearnable: it is something else.
        """
        node = self.keep(self.root.at(*path))
        if node is None or node.kind == "null":
            return None
        if node.word is None:
            raise Unlearnable(str(path[-1]))
        return node.word

    def wants(self, space: str | None, table: str | None) -> bool:
        """Whether the messages of a table are read."""
        tables = Tables(self.spec.changes.tables)
        try:
            wanted = tables.want(space, table)
        except Undecodable as refusal:
            raise Unlearnable(str(refusal)) from refusal
        self.passed_over = next(iter(tables.passed_over), None)
        return wanted

    def capture(self, node: Node, pattern: str, convert: Convert) -> pl.Expr:
        """Take a value, by a pattern with one group.

        Raises:
            Unlearnable: it was taken already, by another pattern or in part, or is a part of the shape.
        """
        if node.start in self._kept and node.start not in self._captured:
            raise Unlearnable(_TWO_WAYS)
        return self._capture(node, Hole(node.start, node.end, pattern), convert)

    def capture_part(self, node: Node, start: int, end: int, pattern: str, convert: Convert) -> pl.Expr:
        """Take a part of a string without escapes, from one character to before another; the rest belongs to the shape.

        Raises:
            Unlearnable: the whole string was taken already, or this part by another pattern.
        """
        if node.start in self._captured:
            raise Unlearnable(_TWO_WAYS)
        return self._capture(node, Hole(node.start + 1 + start, node.start + 1 + end, pattern), convert)

    def _capture(self, node: Node, wanted: Hole, convert: Convert) -> pl.Expr:
        hole = self._captured.setdefault(wanted.start, wanted)
        if hole != wanted:
            raise Unlearnable(_TWO_WAYS)
        self._kept.add(node.start)
        name = f"value {len(self.values)}"
        self.values[name] = (hole.start, convert)
        return pl.col(name)

    def value(self, name: str, type_: DataType, node: Node, writing: Writing) -> pl.Expr:
        """Take a value for a column; of a nested one, and one of which only nulls are known, only null."""
        if type_.is_nested and node.kind != "null":
            raise Unlearnable("nested")
        sample = self.known.get(name) if node.kind == "null" else node
        if sample is None:
            self.keep(node)
            return pl.lit(None)
        self.known[name] = sample
        made = cell(type_, sample, writing)
        convert = _available(made.convert) if type_.name in _UNSENT else made.convert
        return self.capture(node, made.nullable, convert)

    def image(self, node: Node | None, choose: Callable[[str], Writing]) -> Image:
        """Take the columns of a row image.

        Args:
            node: the image.
            choose: the writing of a column's values.
        """
        if node is None or node.kind != "object":
            raise Unlearnable("no image")
        columns, added = self.spec.columns, self.spec.changes.metadata
        return {
            name: self.value(name, columns[name], each, choose(name))
            for name, each in node.items.items()
            if type(name) is str and name in columns.names and name not in added
        }

    def absent(self, node: Node | None) -> Image:
        """The column with the names of absent columns, for an image, if it is asked for."""
        if not self.spec.tells_absent or node is None:
            return {}
        names = (name for name in self.spec.columns.names if name not in self.spec.changes.metadata)
        return {ABSENT: pl.lit(Presence(tuple(names)).absent({str(name): None for name in node.items}))}

    def metadata(self, says: dict[str, Callable[[], pl.Expr]]) -> Image:
        """The metadata columns, each by the function that takes it."""
        return {name: says[what]() for name, what in self.spec.changes.metadata.items()}

    def field(self, type_: DataType, *path: str | int, unit: str | None = None) -> pl.Expr:
        """Take a field of the message for a column of a type, with a unit of numeric times.

        Whether the field is null is a part of the shape.
        """
        if (node := self.given(self.root.at(*path))) is None:
            return pl.lit(None)
        made = cell(type_, node, Writing("UTC", unit=unit))
        return self.capture(node, made.pattern, made.convert)

    def captured(self) -> list[Hole]:
        """The holes with a group, in order."""
        return sorted(self._captured.values(), key=lambda hole: hole.start)

    def holes(self) -> list[Hole]:
        """The holes with a group, and one for each value that no column takes, in order."""
        taken = self._kept | self.fixed
        free = [Hole(leaf.start, leaf.end, SCALAR) for leaf in self._whole.leaves() if leaf.start not in taken]
        return sorted([*self.captured(), *free], key=lambda hole: hole.start)


def _available(convert: Convert) -> Convert:
    """A conversion that leaves what may be Debezium's placeholder for a value to the strict decoder."""

    def of_sent(texts: pl.Series) -> pl.Series:
        unsent = texts.str.contains(UNAVAILABLE[0], literal=True) | (texts == UNAVAILABLE[1])
        values = convert(texts)
        return pl.select(pl.when(~unsent).then(values)).to_series() if unsent.any() else values

    return of_sent
