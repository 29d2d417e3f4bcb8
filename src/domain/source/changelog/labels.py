"""The labels of MySQL's ENUM and SET columns, which the binary log, and so Canal, has as numbers; bits, too."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from attrs import frozen

from ..conversion import Refusal

_BITS = re.compile(r"bit\b", re.IGNORECASE)
_LABELLED = re.compile(r"(enum|set)\b", re.IGNORECASE)
_LABEL = r"'((?:[^'\\]|'')*)(?<! )'"
"""A label. Whether backslashes and trailing blanks belong to it depends on where Canal has read the type."""
_LABELS = re.compile(rf"(?:enum|set)\s*\(\s*({_LABEL}(?:\s*,\s*{_LABEL})*)\s*\).*", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,20}")


@frozen
class _Labels:
    """The labels of a type; None if they cannot be read from it."""

    type: str
    is_set: bool
    labels: tuple[str, ...] | None

    def of(self, number: int, refuse: Refusal) -> str:
        """The label of a number; those of a set's bits, as MySQL writes them.

        Raises:
            Undecodable: it has none, or the labels are not known.
        """
        if self.labels is None:
            raise refuse(str(number), f"its labels are not known: {self.type}; declare the column as bigint")
        if number > (2 ** len(self.labels) - 1 if self.is_set else len(self.labels)):
            raise refuse(str(number), f"it has no such label: {self.type}")
        if self.is_set:
            return ",".join(label for at, label in enumerate(self.labels) if number >> at & 1)
        return ("", *self.labels)[number]  # MySQL has 0, an empty text, for a value that is not a label


def is_numbered(mysql_type: object, column: str) -> bool:
    """Whether Canal writes a number in place of a value: a label, or bits in a column that takes bytes.

    Args:
        mysql_type: the type in MySQL, as Canal's ``mysqlType`` has it.
        column: the name of the type of the column that takes it.

    >>> is_numbered("enum('a','b')", "string"), is_numbered("bit(8)", "binary"), is_numbered("bit(8)", "bigint")
    (True, True, False)
    """
    if type(mysql_type) is not str:
        return False
    return _labels(mysql_type) is not None if column == "string" else column == "binary" and _is_bits(mysql_type)


def label(mysql_type: object, value: Any, refuse: Refusal) -> Any:
    """The label of a value that is the number of one; any other value as it is.

    Raises:
        Undecodable: the number has no label, or the labels are not known; or it stands for bits.
    """
    if refuse.type.name == "binary" and value is not None:
        raise refuse(value, f"the number of the bits of a {mysql_type}; declare the column as bigint or decimal(20,0)")
    labels = _labels(mysql_type) if type(mysql_type) is str else None
    if labels is None or type(value) not in (int, str) or not _NUMBER.fullmatch(str(value)):
        return value
    return labels.of(int(value), refuse)


def _is_bits(mysql_type: str) -> bool:
    return _BITS.match(mysql_type) is not None


@lru_cache(4096)
def _labels(mysql_type: str) -> _Labels | None:
    """The labels of a type; None if it has none."""
    if not (kind := _LABELLED.match(mysql_type)):
        return None
    found = _LABELS.fullmatch(mysql_type)
    read = found and tuple(each.replace("''", "'") for each in re.findall(_LABEL, found[1]))
    return _Labels(mysql_type, kind[1].lower() == "set", read)
