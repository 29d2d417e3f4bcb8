"""The data of a drawing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import field, frozen

from ...domain.source.conversion import escape_controls


@frozen
class Curves:
    """One measure of several groups over the same steps.

    Args:
        title: the title of the drawing.
        measure: its name.
        zone: IANA zone in which times are shown.
        steps: every step of the window up to the newest tick (UTC), in order.
        lines: by the group's name, one value per step; None where there is no tick.
    """

    title: str
    measure: str
    zone: str
    steps: tuple[datetime, ...] = field(converter=tuple[datetime, ...])
    lines: Mapping[str, tuple[float | None, ...]]

    @property
    def missing(self) -> dict[str, int]:
        """How many steps of each group have no tick."""
        return {name: sum(value is None for value in values) for name, values in self.lines.items()}

    def named(self, name: str) -> str:
        """The name of a group for a legend, on one line, with the number of its missing steps, if any."""
        missing, shown = self.missing[name], escape_controls(name)
        return f"{shown} ({missing} of {len(self.steps)} steps without a tick)" if missing else shown
