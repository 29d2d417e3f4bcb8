"""The plan of a view's epoch: which publications of its inputs it reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen

from ...epoch.epoch import Offsets
from ..input import agree


@frozen
class ViewPlan:
    """The plan of an epoch, which is stored as its offsets.

    Args:
        inputs: for each input the epoch at which it is read.
        as_of: the event time as of which all inputs are read (UTC); None if they are not read as of an event time.
        watermark: the event time up to which the view is complete (UTC); None if its inputs have no watermark.
        settings: the fingerprint of the view's settings.
        published: for each input the time at which that epoch was published (UTC, as text). It differs if the input's
            pipeline was built again. Empty in plans of old versions, which did not record it.
        views: for each input the settings under which its view is read; see `view_settings`. Without views that have
            none; empty in plans of old versions, which did not record them.
    """

    inputs: Mapping[str, int]
    as_of: datetime | None
    watermark: datetime | None
    settings: str
    published: Mapping[str, str] = field(factory=dict, eq=False)
    views: Mapping[str, str] = field(factory=dict, eq=False)

    def reads_same(self, other: ViewPlan) -> bool:
        """Whether both plans read the same rows: the same publications, under the same settings of the views.

        What one of them does not record is taken to be the same.
        """
        return self.inputs == other.inputs and all(
            agree(name, self.published, other.published) and agree(name, self.views, other.views)
            for name in self.inputs
        )

    def to_offsets(self) -> dict[str, Any]:
        """The plan as offsets of an epoch."""
        return {
            "inputs": dict(self.inputs),
            "as_of": self.as_of and self.as_of.isoformat(),
            "watermark": self.watermark and self.watermark.isoformat(),
            "settings": self.settings,
            "published": dict(self.published),
            "views": dict(self.views),
        }

    @classmethod
    def of(cls, offsets: Offsets) -> ViewPlan:
        """The plan from offsets that `to_offsets` made."""
        as_of, watermark = (offsets[name] and datetime.fromisoformat(offsets[name]) for name in ("as_of", "watermark"))
        published, views = (offsets.get(name, {}) for name in ("published", "views"))
        return cls(offsets["inputs"], as_of, watermark, offsets["settings"], published, views)
