"""A learned shape: which records have it, and the rows that they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import polars as pl
from attrs import define, field

from ....domain.epoch.batch import BYTES, ERROR, RAW
from ....domain.source.changelog.settings import CANAL, DEBEZIUM, MAXWELL
from ....domain.source.record_spec import RecordSpec
from ....domain.source.row_decoder import is_enveloped
from ....domain.table.row_kind import INSERT, ROW_KIND, UPDATE_BEFORE
from ..parsing import parse_json
from .canal import canal
from .cell import Writing
from .debezium import debezium
from .draft import Draft, Image
from .maxwell import maxwell
from .sample import Node, Unlearnable, read_sample
from .template import GROUP, TEXT, Template

if TYPE_CHECKING:
    import pyarrow as pa

AT = "@"
"""The column of the number of a record in its chunk times `ROWS`, so that there is room for its rows."""
ROWS = 2**32


def _plain(draft: Draft) -> None:
    """Read a row in plain JSON."""
    spec = draft.spec
    unit = spec.changes.time_unit if spec.time_zone == "UTC" else None  # shapes read numbers on the zone's wall clock
    writing = Writing(spec.time_zone, texts=False, unit=unit)
    if is_enveloped({*draft.root.items}, spec):
        raise Unlearnable("an envelope")
    kind = spec.row_kinds.of(draft.word(spec.row_kind)) if spec.row_kind else INSERT
    if kind is None:
        raise Unlearnable("row kind")
    draft.kind = kind
    draft.new = draft.image(draft.root, lambda _: writing) | draft.absent(draft.root)


READERS: Mapping[str, Callable[[Draft], None]] = {
    "json": _plain,
    MAXWELL: maxwell,
    DEBEZIUM: debezium,
    CANAL: canal,
}
"""By format, what reads a shape off a sample."""


@define(eq=False)
class Shape:
    """A shape.

    Args:
        draft: what was read off a sample.
        text: the sample.
    """

    draft: Draft
    text: str
    template: Template = field(init=False)
    hits: int = 0

    @template.default
    def _template(self) -> Template:
        return Template(self.text, self.draft.holes())

    def match(self, records: pl.DataFrame, data: pa.Buffer) -> pl.DataFrame:
        """The records that have the form of the shape, with the texts of their values; see `Template.match`."""
        found = self.template.match(records, data)
        if not found.height:
            return found
        return found.rename({GROUP.format(at): str(hole.start) for at, hole in enumerate(self.draft.captured())})

    def typed(self, texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Records with their typed values, and the numbers of those of which a value does not convert exactly."""
        certain, values = pl.Series([True]).new_from_index(0, texts.height), [texts[AT], texts[TEXT]]
        for name, (start, convert) in self.draft.values.items():
            text = texts[str(start)]
            value = convert(text)
            if value.null_count() != text.null_count():
                certain &= value.is_not_null() | text.is_null()
            values.append(value.alias(name))
        typed = pl.DataFrame(values)
        if certain.all():
            return typed, texts[AT].clear()
        return typed.filter(certain), texts[AT].filter(~certain)

    def rows(self, typed: pl.DataFrame, schema: pl.Schema) -> list[pl.DataFrame]:
        """The rows of records with typed values: `AT`, which orders them, and the columns of a schema."""
        if self.draft.old is None:
            return [_image(typed, self.draft.kind, self.draft.new, schema, 0)]
        return [
            _image(typed, UPDATE_BEFORE, self.draft.old, schema, 0),
            _image(typed, self.draft.kind, self.draft.new, schema, 1),
        ]


def _image(typed: pl.DataFrame, kind: str, image: Image, schema: pl.Schema, more: int) -> pl.DataFrame:
    nothing, own = pl.lit(None), {ROW_KIND: pl.lit(kind), RAW: pl.col(TEXT), BYTES: pl.lit(None), ERROR: pl.lit(None)}
    values = (own.get(name, image.get(name, nothing)).cast(type_).alias(name) for name, type_ in schema.items())
    return typed.select(pl.col(AT) + more, *values)


def learn(text: str, spec: RecordSpec, known: dict[str, Node], fixed: Iterable[int] = ()) -> Shape:
    """The shape of a sample.

    Args:
        text: a record.
        spec: the spec of the records.
        known: see `Draft`.
        fixed: see `Draft`.

    Raises:
        Unlearnable: the strict decoder must read such records.
        Undecodable: it is not JSON.
    """
    parse_json(text.encode())
    draft = Draft(spec, read_sample(text), known, frozenset(fixed))
    READERS[spec.format](draft)
    return Shape(draft, text)


def learn_constants(texts: list[str], spec: RecordSpec, known: dict[str, Node]) -> Shape:
    """The shape of records of one form in which also those values are alike that no column takes.

    Raises:
        Unlearnable: the strict decoder must read such records.
    """
    leaves = zip(*(read_sample(text).leaves() for text in texts), strict=True)
    alike = (first.start for first, *others in leaves if all(each.text == first.text for each in others))
    return learn(texts[0], spec, known, alike)
