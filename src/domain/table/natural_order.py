"""Natural sort order of texts that consist of a name and a number, such as log files (``mysql-bin.999999``).

Such texts are compared by name, then by number: ``mysql-bin.999999`` sorts before ``mysql-bin.1000000``. The GTIDs of
one server (``UUID:7``) and places in a log file (``mysql-bin.999999:150``) are compared alike. All other texts, such as
times in ISO 8601 and decimal fractions, are compared as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw

_DIGITS = 20
_ZEROS = "0" * _DIGITS
_UUID = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# A name has no digits, or ends in a dot after a character that is not a digit (`db2-bin.7`, not `12.7`), or begins with
# a letter and ends in a sign that no time has before its last number (`v1-7`), or is a UUID.
_OTHER_NAME = r"[^\n]*[^0-9\n]\.|[A-Za-z][^\n]*[-/_#@]"
_NAME_OF = rf"(?:[^0-9]*|{_OTHER_NAME}|{_UUID}:)"
_NUMBER_OF = f"[0-9]{{1,{_DIGITS}}}"
_NAMED_NUMBER = rf"\A{_NAME_OF}{_NUMBER_OF}\z"
_FILE_AND_PLACE = rf"\A(?:[^0-9]+|{_OTHER_NAME}){_NUMBER_OF}:{_NUMBER_OF}\z"
_NUMBER, _NAME, _PLACE = r"[0-9]+\z", r"\A(?s:.*)[^0-9]", r":[0-9]+\z"
_PARTS = re.compile(rf"({_NAME_OF})({_NUMBER_OF})")
_FILE = re.compile(_FILE_AND_PLACE.replace(r"\z", r"\Z"))


def natural(text: nw.Expr) -> nw.Expr:
    """A text whose plain order is the natural sort order of `text`; null for null.

    Numbers have up to 20 digits. Numbers that differ only in leading zeros are equal.
    """
    # The costly replacements see only the texts of each kind; the others are null there.
    placed = nw.when(text.str.contains(_FILE_AND_PLACE)).then(text)
    named = nw.when(text.str.contains(_NAMED_NUMBER)).then(text)
    file_and_place = nw.concat_str([_pad(placed.str.replace_all(_PLACE, "")), nw.lit(":"), _padded(placed)])
    return nw.coalesce(file_and_place, _pad(named), text)


def _pad(text: nw.Expr) -> nw.Expr:
    return nw.concat_str([text.str.replace_all(_NUMBER, ""), _padded(text)])


def _padded(text: nw.Expr) -> nw.Expr:
    return nw.concat_str([nw.lit(_ZEROS), text.str.replace_all(_NAME, "")]).str.tail(_DIGITS)


def natural_value(value: Any) -> Any:
    """As `natural`, for one value; a value that is not a text is returned unchanged.

    >>> natural_value("db2-bin.000007"), natural_value("2024-03-01T09:00:00.5"), natural_value(7)
    ('db2-bin.00000000000000000007', '2024-03-01T09:00:00.5', 7)
    """
    if not isinstance(value, str):
        return value
    if _FILE.fullmatch(value):
        file, _, place = value.rpartition(":")
        return f"{natural_value(file)}:{place.zfill(_DIGITS)}"
    parts = _PARTS.fullmatch(value)
    return parts[1] + parts[2].zfill(_DIGITS) if parts else value


def with_natural(rows: nw.LazyFrame[Any], names: Sequence[str]) -> tuple[nw.LazyFrame[Any], list[str]]:
    """Add a column in natural sort order for each text column of `names`.

    Returns:
        The rows, and the columns to order them by: the added one for each text column, else the column itself.
    """
    texts = texts_of(rows, names)
    added = {name: f"_natural{name}" for name in texts}
    if added:
        rows = rows.with_columns(natural(nw.col(name)).alias(other) for name, other in added.items())
    return rows, [added.get(name, name) for name in names]


def texts_of(rows: nw.LazyFrame[Any], names: Iterable[str]) -> list[str]:
    """The columns of `names` that are texts."""
    schema = rows.collect_schema()
    return [name for name in names if schema[name] == nw.String]
