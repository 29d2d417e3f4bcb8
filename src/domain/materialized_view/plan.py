"""What an epoch of a view reads."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..epoch import Offsets


@frozen
class ViewPlan:
    """The moment that a view shows.

    Args:
        inputs: of each input the epoch it is read at.
        as_of: the event time that all inputs are read as of (UTC); None where they have none.
        watermark: up to where the view is complete (UTC); None where its inputs have none.
        settings: the fingerprint of what is made of them.
    """

    inputs: Mapping[str, int]
    as_of: datetime | None
    watermark: datetime | None
    settings: str

    def to_offsets(self) -> dict[str, Any]:
        """The plan as offsets of an epoch."""
        return {
            "inputs": dict(self.inputs),
            "as_of": self.as_of and self.as_of.isoformat(),
            "watermark": self.watermark and self.watermark.isoformat(),
            "settings": self.settings,
        }

    @classmethod
    def of(cls, offsets: Offsets) -> ViewPlan:
        """Read `to_offsets` back."""
        as_of, watermark = (offsets[name] and datetime.fromisoformat(offsets[name]) for name in ("as_of", "watermark"))
        return cls(offsets["inputs"], as_of, watermark, offsets["settings"])
