"""What can be wrong with CSV and JSON files, in the same words on every engine."""

from __future__ import annotations


def explain_case(place: str, name: str, other: str) -> str:
    """About two names of JSON objects that tables cannot have as two columns.

    Args:
        place: the file, and the line if it is known.
        name: the one.
        other: the other.
    """
    return f"{place}: names {name!r} and {other!r} differ only in case; write one of them in all lines"
