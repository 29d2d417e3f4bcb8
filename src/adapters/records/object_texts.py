"""Rows as JSON objects, column by column: the raw text of records whose source has none, such as Parquet files."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ...domain.source.conversion import show_number, show_value
from .decoder import to_json
from .text_lines import each_as_text, join_texts, quote_texts


def object_texts(rows: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object, as `to_json` writes it, but NaN and infinities are texts; string."""
    pieces: list[pl.Series | str] = []
    for at, name in enumerate(rows.schema.names):
        pieces += [f"{',' if at else ''}{to_json(name)}:", _texts(rows.column(at)).fill_null("null")]
    texts = join_texts(["{", *pieces, "}"], rows.num_rows)
    return texts.to_arrow().cast(pa.string())


def _texts(values: pa.Array) -> pl.Series:
    """The values of a column as JSON; null for null."""
    kind = values.type
    for is_kind, texts_of in _BY_KIND.items():
        if is_kind(kind):
            return texts_of(values)
    return each_as_text(values.to_pylist(), lambda value: to_json(show_value(value)))


def _plain(values: pa.Array) -> pl.Series:
    return _series(values).cast(pl.String)


def _numbers(values: pa.Array) -> pl.Series:
    """A list of numbers as JSON has each number between two commas."""
    are_finite = pc.all(pc.is_finite(values)).as_py()
    listed = to_json(values.to_pylist() if are_finite else [*map(show_number, values.to_pylist())])[1:-1]
    return pl.Series(listed.split(",") if listed else [], dtype=pl.String)


def _strings(values: pa.Array) -> pl.Series:
    return quote_texts(_series(values), to_json)


def _moments(values: pa.Array) -> pl.Series:
    texts = _series(values).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f")
    return '"' + texts.str.replace(".000000", "", literal=True) + '"'


def _series(values: pa.Array) -> pl.Series:
    return pl.Series(pl.from_arrow(values))


def _is_naive(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None and kind.unit == "us")


_BY_KIND: dict[Callable[[pa.DataType], bool], Callable[[pa.Array], pl.Series]] = {
    pa.types.is_integer: _plain,
    pa.types.is_boolean: _plain,
    pa.types.is_float64: _numbers,
    pa.types.is_string: _strings,
    pa.types.is_large_string: _strings,
    _is_naive: _moments,
}
