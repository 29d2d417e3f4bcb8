"""Shortcuts from a publication to one further back, so that an old one is found without reading all newer ones.

The publication of an even epoch has a shortcut to the epoch whose number lacks its lowest bit: 12 to 8, 8 to 0. Whoever
follows the shortcuts that do not lead too far, and else goes to the publication before, reads about log² n of n.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import define, field

from ..epoch.epoch import Place, Shortcut
from ..errors import HeadwaterError
from .ledger import Published


@define(eq=False)
class Shortcuts:
    """Makes the shortcuts of new publications.

    Args:
        read: returns the publication at a place; None if there is none.
    """

    read: Callable[[Place], Published | None]
    _line: list[Published] = field(init=False, factory=list)
    """The newest publication and those that its shortcuts lead to, one after the other, as far as they were read."""

    def restart(self) -> None:
        """Forget what was read."""
        self._line = []

    def add(self, published: Published, shortcut: Shortcut | None) -> None:
        """Record the newest publication, which has this shortcut."""
        reached = [each for each in self._line if shortcut is None or each.number <= shortcut.number]
        self._line = [published, *(reached if shortcut or published.number % 2 else ())]

    def find(self, latest: Published | None, number: int) -> Shortcut | None:
        """The shortcut of the publication of an epoch.

        None for an odd epoch, and if the publication it leads to is not found through the shortcuts of others, as of
        publications by earlier versions.

        Args:
            latest: the publication before it.
            number: the number of the epoch.
        """
        to = number & (number - 1)
        if latest is None or latest.number <= to:
            return None
        if not self._line or self._line[0].place != latest.place:
            self._line = [latest]
        while self._line[-1].number > to:
            if (further := self._follow(self._line[-1])) is None:
                return None
            self._line.append(further)
        passed = [each for each in self._line if each.number > to]
        found = self._line[len(passed)]
        return Shortcut(to, found.place, min(map(_earliest, passed))) if found.number == to else None

    def _follow(self, found: Published) -> Published | None:
        """The publication that a shortcut leads to, or the one before that of an odd epoch; None if there is none."""
        place = found.shortcut.place if found.shortcut else found.previous if found.number % 2 else None
        try:
            return self.read(place) if place else None
        except HeadwaterError:  # a run goes on without what is old; a search says what is wrong
            return None


def _earliest(found: Published) -> datetime:
    """The earliest time of a publication and of those that its shortcut passes over."""
    own = found.publication.published_at
    return min(own, found.shortcut.earliest) if found.shortcut else own
