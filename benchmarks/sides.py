"""What each side of `benchmarks.retraction` is given, and what it tells of its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from attrs import asdict, field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal
    from pathlib import Path

FIGURES, GC_LOG = "figures.json", "gc.log"
_HEAP = "2g"


@frozen
class Figures:
    """How a side went; what is 0, or an empty list, was not measured.

    Args:
        began: when it could take its first message, in seconds since 1970; all before was its start.
        seconds: from then until the last totals were published.
        state_bytes: what it has to keep for the next message, as it lies on disk.
        totals: orders and cents by state, in the end.
        state_rows: how many rows it keeps.
        past_bytes: of the totals before the cut, on disk.
        epochs: seconds of each epoch.
        view: seconds of reading the totals in the end.
        floors: seconds of a plain append of each epoch's rows.
        jobs: Spark jobs of each epoch.
        phases: the parts of each epoch's seconds.
    """

    began: float
    seconds: float
    state_bytes: int
    totals: dict[str, list[int]]
    state_rows: int = 0
    past_bytes: int = 0
    epochs: list[float] = field(factory=list)
    view: float = 0.0
    floors: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)
    phases: list[dict[str, float]] = field(factory=list)

    def write(self, home: Path) -> None:
        """Write them into a side's folder."""
        (home / FIGURES).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, home: Path) -> Self:
        """Those of a side's folder."""
        return cls(**json.loads((home / FIGURES).read_text()))


def spark_settings(home: Path) -> dict[str, str]:
    """The heap that every side has, and where its collections are told."""
    return {
        "spark.driver.memory": _HEAP,
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={home.resolve() / GC_LOG}",
    }


def totals_of(rows: Iterable[tuple[str, int, Decimal]]) -> dict[str, list[int]]:
    """Orders and cents by state, from orders and amounts."""
    return {state: [orders, round(amount * 100)] for state, orders, amount in rows}
