"""What each side of `benchmarks.retraction` tells of its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from attrs import asdict, field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal
    from pathlib import Path

_FILE = "figures.json"


@frozen
class Figures:
    """How a side went; what is 0, or an empty list, was not measured.

    Args:
        seconds: of each epoch; one entry where there are none.
        state_bytes: what it has to keep for the next message.
        state_rows: how many rows these are.
        totals: orders and cents by state, in the end.
        live_heap: MiB that the JVM could not give back.
        view: seconds of reading the totals in the end.
        floors: seconds of a plain append of each epoch's rows.
        jobs: Spark jobs of each epoch.
        phases: parts of the epochs' seconds.
    """

    seconds: list[float]
    state_bytes: int
    state_rows: int
    totals: dict[str, list[int]]
    live_heap: float
    view: float = 0.0
    floors: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)
    phases: dict[str, list[float]] = field(factory=dict)

    def write(self, folder: Path) -> None:
        """Write them into a folder."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Those of a folder."""
        return cls(**json.loads((folder / _FILE).read_text()))


def totals_of(rows: Iterable[tuple[str, int, Decimal]]) -> dict[str, list[int]]:
    """Orders and cents by state, from orders and amounts."""
    return {state: [orders, round(amount * 100)] for state, orders, amount in rows}
