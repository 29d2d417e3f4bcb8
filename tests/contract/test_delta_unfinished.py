"""An epoch that one engine has begun on Delta is taken up by the other, at whichever commit it stopped."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater.testing.failing_store import Crash, Fault
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.delta, pytest.mark.contract]


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as exits:
        yield exits


def signed(contract: int, day: int) -> str:
    return json.dumps({"project": contract % 2, "contract": contract, "signed": f"2024-03-{day:02}T09:00:00Z"})


def ranks(trial: Trial, engine: str) -> list[tuple[Any, ...]]:
    trial.backend = engine
    rows: nw.LazyFrame[Any] = nw.from_native(trial.open().view("ranked.ranks")).lazy()
    found = rows.select("project", "contract", "rank").collect(backend="polars")
    return sorted(found.rows())


def run_over(trial: Trial, engines: tuple[str, str, str], fault: Fault | None) -> None:
    """Three epochs; the second is begun by the second engine, and ended by the third."""
    (source,) = trial.deployment().sources
    trial.backend = engines[0]
    trial.feed(source, [signed(1, 5), signed(2, 6), signed(3, 7)])
    trial.run()
    trial.backend = engines[1]
    trial.feed(source, [signed(5, 1), signed(7, 6)])
    if fault is not None:
        with pytest.raises(Crash):
            trial.run(fault=fault)
    trial.backend = engines[2]
    trial.run()
    trial.backend = engines[1]
    trial.feed(source, [signed(9, 2)])
    trial.run()


@pytest.mark.parametrize("begun_by", ["delta", "delta:local"])
@pytest.mark.parametrize(
    "fault",
    [Fault(before=False, commit=1), Fault(before=False, commit=2), Fault(before=True), Fault(before=False)],
    ids=str,
)
@pytest.mark.usefixtures("program_session")
def test_it_is_taken_up(tmp_path: Path, exits: ExitStack, begun_by: str, fault: Fault) -> None:
    ended_by = "delta:local" if begun_by == "delta" else "delta"
    found = []
    for folder, engines, at in (
        ("straight", ("delta:local",) * 3, None),
        ("in turn", (ended_by, begun_by, ended_by), fault),
    ):
        (tmp_path / folder).mkdir()
        trial = Trial(tmp_path / folder, engines[0], exits)
        trial.deploy(ranked_contracts())
        run_over(trial, engines, at)
        found += [ranks(trial, engine) for engine in (engines[1], engines[2])]
    assert found == [found[0]] * 4
    assert len(found[0]) == 6
