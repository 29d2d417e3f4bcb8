"""Labels: they name a version by its content, independent of who published it and when."""

from __future__ import annotations

from datetime import date, datetime
from typing import Self

from attrs import field, frozen

from ..epoch.watermark import format_time, instant
from ..errors import ConfigError


def _watermark(given: date) -> datetime:
    if not isinstance(given, date):
        raise ConfigError(f"{given!r} is not a label; give a datetime, such as datetime(2024, 3, 1, 9)")
    return instant(given)


@frozen
class Label:
    """A name for a version: the watermark of its inputs.

    >>> str(Label.parse("2024-03-01T09:00:00Z"))
    '2024-03-01T09:00:00Z'
    """

    watermark: datetime = field(converter=_watermark)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a label in the form that `str` and the listings write.

        Raises:
            ConfigError: the text is not a label.
        """
        try:
            return cls(datetime.fromisoformat(text))
        except (ValueError, OverflowError) as error:
            raise ConfigError(
                f"{text!r} is not a label; write a watermark such as 2024-03-01T09:00:00Z, as `versions` lists them"
            ) from error

    def __str__(self) -> str:
        return format_time(self.watermark)
