"""The contracts that runs are tried with: each is an epoch of one row, and later ones were signed earlier."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.testing.trial import Trial


def record(contract: int) -> dict[str, object]:
    return {"project": 1, "contract": contract, "signed": f"2024-03-01T{20 - contract:02}:00:00Z"}


def feed(trial: Trial, *contracts: int) -> None:
    """Add one epoch for each contract."""
    for contract in contracts:
        trial.feed("contracts", [json.dumps(record(contract))])


def ranks(trial: Trial) -> dict[int, int]:
    rows = trial.open().view("ranked.ranks")
    return dict(rows.select("contract", "rank").rows())


def right(count: int) -> dict[int, int]:
    """The ranks of the first contracts."""
    return {contract: count - contract for contract in range(count)}
