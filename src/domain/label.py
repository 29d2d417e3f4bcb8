"""Versions by what they hold, whoever published them when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from attrs import field, frozen

from .errors import ConfigError
from .watermark import instant, told

if TYPE_CHECKING:
    from typing import Self


@frozen
class Label:
    """What a version is asked for by: the watermark of its inputs.

    >>> str(Label.parse("2024-03-01T09:00:00Z"))
    '2024-03-01T09:00:00Z'
    """

    watermark: datetime = field(converter=instant)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a label as `str` and the listings write it.

        Raises:
            ConfigError: it is no such text.
        """
        try:
            return cls(datetime.fromisoformat(text))
        except ValueError as error:
            raise ConfigError(
                f"{text!r} is no label; it is a watermark such as 2024-03-01T09:00:00Z, as `headwater versions` lists"
            ) from error

    def __str__(self) -> str:
        return told(self.watermark)
