"""What can be wrong with CSV and JSON files, in the same words on every engine."""

from __future__ import annotations

ONLY_RETURNS = (
    "the header has a carriage return inside: the lines seem to end with it alone; convert the line ends to line feeds,"
    " as with tr '\\r' '\\n'"
)
"""About a CSV file of which all lines would be taken for the header."""


def explain_case(place: str, name: str, other: str) -> str:
    """About two names of JSON objects that tables cannot have as two columns.

    Args:
        place: the file, and the line if it is known.
        name: the one.
        other: the other.
    """
    return f"{place}: names {name!r} and {other!r} differ only in case; write one of them in all lines"
