"""What converts a record's values: the target of a conversion, and the error for a value that does not fit it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from attrs import evolve, frozen

from ..errors import BadInput
from ..table.schema import Column, DataType

Convert: TypeAlias = Callable[[Any], Any]
"""Converts a parsed value that is not null to a typed one, or raises `Undecodable`.

An instant may be a `datetime` without a zone, in UTC. Any time may be microseconds since 1970, which Arrow converts
twice as fast.
"""

ToJson: TypeAlias = Callable[[Any], str]
"""Writes a parsed value as JSON text, without loss of digits."""

_SHOWN = 60
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters; and the separators of lines and paragraphs, which some programs take for line breaks."""


class Undecodable(BadInput):
    """A record cannot be decoded; the message is the reason that its dead letter has."""


def shown(value: object) -> str:
    """A value for a message, shortened.

    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    >>> shown(None)
    'null'
    """
    if value is None:
        return "null"
    text = str(value) if isinstance(value, bool | int | Decimal) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def escape_controls(text: str) -> str:
    r"""The same text on one line, for display: a terminal does not act on its control characters.

    >>> print(escape_controls("a\nb\x1b[31m"))
    a\nb\x1b[31m
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def show_value(value: Any) -> Any:
    """The same value, in which `show_number` has replaced each floating-point number."""
    if isinstance(value, float):
        return show_number(value)
    if isinstance(value, list):
        return [show_value(each) for each in value]
    return {name: show_value(each) for name, each in value.items()} if isinstance(value, dict) else value


def show_number(value: float | None) -> float | str | None:
    """The same number; NaN and infinities, which JSON lacks, become strings as Spark spells them."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


@frozen
class Refusal:
    """Makes the error for a value that does not fit a column."""

    column: str
    type: DataType

    def __call__(self, value: object, why: str = "") -> Undecodable:
        wanted, why = self.type.declared, why and f" ({why})"
        return Undecodable(f"column {self.column!r}: {wanted} wanted, not {shown(value)}{why}")


@frozen
class Target:
    """The column that a converter is built for; `typed` as in `decode.converters`.

    `takes_unit`: whether ``time_unit`` would make its numbers times, so that a refusal names it.
    """

    type: DataType
    refuse: Refusal
    zone: ZoneInfo
    to_json: ToJson
    typed: bool = False
    takes_unit: bool = False

    def inside(self, part: str, type_: DataType) -> Target:
        """For a value inside a nested one; `part` is its place there, as messages show it."""
        return evolve(self, type=type_, refuse=Refusal(self.refuse.column + part, type_))


Build: TypeAlias = Callable[[Target], Convert]
"""Makes the converter of a column."""

Choose: TypeAlias = "Callable[[Column], Build]"
"""Chooses the `Build` of a column, for one way of writing values."""
