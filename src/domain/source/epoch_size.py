"""How much of what is waiting an epoch reads."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, optional


@frozen
class EpochSize:
    """The size of what an epoch reads, or the largest size allowed.

    Args:
        rows: the number of records; None if they are not counted.
        bytes: the bytes of the records; None if they are not counted.
    """

    rows: int | None = field(default=None, validator=optional(ge(0)))
    bytes: int | None = field(default=None, validator=optional(ge(0)))

    def plus(self, other: EpochSize) -> EpochSize:
        """Both sizes together; what either does not count is not counted."""
        return EpochSize(_sum(self.rows, other.rows), _sum(self.bytes, other.bytes))

    def exceeds(self, limit: EpochSize) -> bool:
        """Whether it is above a limit in anything that both count.

        >>> EpochSize(rows=3).exceeds(EpochSize(rows=2)), EpochSize(rows=3).exceeds(EpochSize(bytes=2))
        (True, False)
        """
        return _is_above(self.rows, limit.rows) or _is_above(self.bytes, limit.bytes)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _is_above(size: int | None, limit: int | None) -> bool:
    return size is not None and limit is not None and size > limit
