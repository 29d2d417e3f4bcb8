"""JSON lines and CSV of rows of JSON values, column by column: a million rows take a second or two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import polars as pl

from ...domain.source.conversion import show_number, show_value

_ESCAPED = r'["\\\x00-\x1f]'
"""What JSON escapes in a string."""
_QUOTED = '[,"\r\n]'
"""What CSV quotes a field for."""
_text_of = json.JSONEncoder(ensure_ascii=False).encode


def json_lines(names: Sequence[str], parts: Iterable[pl.DataFrame]) -> Iterator[str]:
    """Texts of whole lines, one JSON object for each row.

    Args:
        names: the columns, in order.
        parts: the rows, as `cell_frames` returns them.
    """
    keys = [f"{_text_of(name)}: " for name in names]
    starts = [("{" if at == 0 else ", ") + key for at, key in enumerate(keys)]
    for part in parts:
        columns = [_json_column(column).fill_null("null") for column in part]
        pieces = [each for pair in zip(starts, columns, strict=True) for each in pair]
        yield "".join(join_texts([*pieces, "}\n"], part.height))


def csv_lines(names: Sequence[str], parts: Iterable[pl.DataFrame]) -> Iterator[str]:
    """Texts of whole lines: a header, then the rows; null is an empty field, and an empty string is ``""``.

    Args:
        names: the columns, in order.
        parts: the rows, as `cell_frames` returns them.
    """
    header = pl.DataFrame([names], schema=list(names), orient="row")
    for part in chain([header], parts):
        columns = [_csv_column(column).fill_null("") for column in part]
        pieces = [each for column in columns for each in (",", column)][1:]
        yield "".join(join_texts([*pieces, "\n"], part.height))


def join_texts(pieces: Sequence[pl.Series | str], rows: int) -> pl.Series:
    """Join the pieces of each of some rows: columns of text, and texts that are the same in each row."""
    columns = {str(at): each for at, each in enumerate(pieces) if isinstance(each, pl.Series)}
    joined = pl.concat_str(pl.lit(each) if isinstance(each, str) else str(at) for at, each in enumerate(pieces))
    return pl.DataFrame({**columns, "_": pl.repeat(0, rows, eager=True)}).select(joined).to_series()


def _json_column(column: pl.Series) -> pl.Series:
    if column.dtype == pl.String:
        return quote_texts(column, _text_of)
    if column.dtype.is_float():
        return each_as_text(column, _json_number)
    if column.dtype.is_nested():
        return each_as_text(column.to_list(), nested_text)
    return column.cast(pl.String)


def nested_text(value: object) -> str:
    """A nested value as JSON."""
    return _text_of(show_value(value))


def _json_number(value: float) -> str:
    shown = show_number(value)
    return f'"{shown}"' if isinstance(shown, str) else repr(shown)


def quote_texts(texts: pl.Series, quote: Callable[[Any], str]) -> pl.Series:
    """Texts as JSON strings; `quote` writes one that needs more than quotes around it."""
    return each_as_text(texts, quote) if texts.str.contains(_ESCAPED).any() else '"' + texts + '"'


def each_as_text(values: Iterable[Any], show: Callable[[Any], str]) -> pl.Series:
    """Values as text, one by one; null stays null."""
    return pl.Series([None if value is None else show(value) for value in values], dtype=pl.String)


def _csv_column(column: pl.Series) -> pl.Series:
    if column.dtype.is_float():
        return each_as_text(column, lambda value: str(show_number(value)))
    text = each_as_text(column.to_list(), nested_text) if column.dtype.is_nested() else column.cast(pl.String)
    if column.dtype != pl.String and not column.dtype.is_nested():
        return text
    text = text.alias(column.name)
    field, quoted = pl.col(text.name), pl.lit('"')
    needs = (field == "") | field.str.contains(_QUOTED)
    doubled = quoted + field.str.replace_all('"', '""', literal=True) + quoted
    return text.to_frame().select(pl.when(needs).then(doubled).otherwise(field)).to_series()
