"""The rows that a table stores, as Polars frames: what `..rows` makes of frames of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import reduce
from urllib.parse import quote

import polars as pl

from ....domain.errors import BadInput
from ....domain.table.schema import INTEGERS, Schema
from ....domain.table.spec import TableSpec
from ...polars.schema import polars_schema, polars_type
from ..key_encoding import EMPTY, NULL, SEPARATOR
from ..names import DELETED, GONE, KEY, PARTITION, SEQUENCE, stored_name

RECORD_KEY = "_hoodie_record_key"
"""string: Hudi's own copy of a row's key, which identifies the row within its file group."""
BUCKET = "_headwater_bucket"
"""int: the number of a row's file group within its partition."""

_UNSAFE = "[^A-Za-z0-9-]"
_LONGEST = 255
"""The largest number of bytes in the name of a folder."""
_SMALL = {"tinyint": pl.Int32(), "smallint": pl.Int32()}


def can_store(spec: TableSpec) -> bool:
    """Whether the rows of a table can be made here: with keys and partitions of these types, and no nested columns."""
    texts = (spec.schema[name].name in _TEXTS for name in (*spec.key, *spec.partition_by))
    return all(texts) and not any(each.type.is_nested for each in spec.schema.columns)


def has_plain_dates(rows: pl.DataFrame, spec: TableSpec) -> bool:
    """Whether the dates in columns of the key and the partition are from year 1 to 9999: others are left to Spark."""
    names = [
        each for each in (*spec.key, *spec.partition_by) if each in rows.columns and spec.schema[each].name == "date"
    ]
    plain = (pl.col(name).is_between(date.min, date.max).fill_null(value=True).all() for name in names)
    return not names or rows.select(pl.all_horizontal(*plain)).item()


def check_folders(stored: pl.DataFrame, spec: TableSpec) -> None:
    """Check that the names of partitions are names of folders.

    Raises:
        BadInput: one is too long.
    """
    longest = max((len(each.encode()) for each in stored[PARTITION].unique()), default=0)
    if longest > _LONGEST:
        raise BadInput(
            f"table {spec.name}: the value of {', '.join(spec.partition_by)} in some row is too long for the name of a"
            f" folder ({longest} bytes, of at most {_LONGEST}); shorten it, or reject such rows before"
        )


def to_stored(rows: pl.DataFrame, spec: TableSpec, columns: Schema, sequence: int | None = None) -> pl.DataFrame:
    """Rows as a table stores them, without Hudi's own columns but `RECORD_KEY`, and with `PARTITION`.

    Args:
        rows: in the spec's columns.
        spec: the table's spec.
        columns: all columns of the table; those that the rows lack are null.
        sequence: the number of the commit, in a table that is folded on read.
    """
    hidden = _identity(spec, sequence)
    if spec.key:
        hidden.append(pl.lit(value=False).alias(DELETED))
    if sequence is not None:
        hidden.append(pl.lit(sequence, pl.Int64()).alias(SEQUENCE))
    values = [
        (pl.col(each.name) if each.name in rows.columns else pl.lit(None))
        .cast(_SMALL.get(each.type.name, polars_type(each.type)))
        .alias(stored_name(each.name))
        for each in columns.columns
    ]
    return rows.select(*hidden, *values)


def to_gone(keys: pl.DataFrame, spec: TableSpec) -> pl.DataFrame:
    """Keys to delete, each once: `RECORD_KEY`, `KEY` and `PARTITION`; none in a table without a key."""
    if not spec.key:
        return pl.DataFrame(schema=dict.fromkeys((RECORD_KEY, PARTITION), pl.String()))
    return keys.select(*_identity(spec, None)).unique()


def stored_names(rows: pl.DataFrame, spec: TableSpec) -> set[str]:
    """The columns of stored rows that are in the table's schema."""
    return {*rows.columns} - {RECORD_KEY, *(() if spec.partition_by else (PARTITION,))}


def as_read(rows: pl.DataFrame, gone: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Stored rows and deleted keys as a log is read: `RECORD_KEY`, `GONE`, `SEQUENCE` and a schema's columns."""
    columns = pl.Schema({RECORD_KEY: pl.String(), GONE: pl.Boolean(), SEQUENCE: pl.Int64()}) | polars_schema(schema)
    names = {stored_name(name): name for name in schema.names} | {DELETED: GONE}
    there = rows.rename({name: into for name, into in names.items() if name in rows.columns})
    deleted = gone.select(RECORD_KEY, pl.lit(value=True).alias(GONE))
    found = pl.concat([pl.DataFrame(schema=columns), there, deleted], how="diagonal_relaxed")
    return found.select(pl.col(name).cast(dtype) for name, dtype in columns.items())


def with_buckets(rows: pl.DataFrame, number: int) -> pl.DataFrame:
    """Rows with `BUCKET`, as Hudi computes it from their `KEY`."""
    buckets = [_bucket(key, number) for key in rows[KEY]] if number > 1 else [0] * rows.height
    return rows.with_columns(pl.Series(BUCKET, buckets, pl.Int32()))


def _bucket(key: str, number: int) -> int:
    """The hash of a Java list whose only element is a text, modulo the number; the text has only ASCII."""
    found = reduce(lambda so_far, letter: (31 * so_far + letter) & 0xFFFFFFFF, key.encode(), 0)
    return ((found + 31) & 0x7FFFFFFF) % number


def _identity(spec: TableSpec, sequence: int | None) -> list[pl.Expr]:
    """`RECORD_KEY`, `KEY` and `PARTITION`; rows without a key have no `KEY`, and get their record key with a commit."""
    folder = _joined(_text(name, spec.schema).fill_null(NULL) for name in spec.partition_by).alias(PARTITION)
    if not spec.key:
        return [pl.lit(None, pl.String()).alias(RECORD_KEY), folder]
    key = _joined(_text(name, spec.schema) for name in spec.key)
    record = key if sequence is None else pl.format(f"{KEY}:{{}},{SEQUENCE}:{sequence}", key)
    return [record.alias(RECORD_KEY), key.alias(KEY), folder]


def _joined(texts: Iterable[pl.Expr]) -> pl.Expr:
    """Texts with a separator; the empty text if there are none."""
    return pl.concat_str([*texts] or [pl.lit("")], separator=SEPARATOR)


def _text(name: str, schema: Schema) -> pl.Expr:
    return _TEXTS[schema[name].name](pl.col(name))


def _escaped(text: pl.Expr) -> pl.Expr:
    return (
        pl.when(text == "")
        .then(pl.lit(EMPTY))
        .when(text.str.contains(_UNSAFE))
        .then(text.map_elements(_escape, return_dtype=pl.String()))
        .otherwise(text)
    )


def _escape(text: str) -> str:
    """Each byte but letters, digits and ``-`` as ``_`` and two hexadecimal digits; see `..key_encoding`."""
    plain = quote(text, safe="-")
    for letter in "_.~":  # which are safe in addresses
        plain = plain.replace(letter, f"%{ord(letter):02X}")
    return plain.replace("%", "_")


_TEXTS: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    **dict.fromkeys((*INTEGERS, "boolean", "date"), lambda value: value.cast(pl.String())),
    "timestamp": lambda value: value.dt.epoch("us").cast(pl.String()),
    "string": _escaped,
}
"""By type, how a key column's value is written; the texts of other types are left to Spark."""
