"""Contracts as they are signed, and their ranks in a few plain lines."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Row = dict[str, Any]

_START = datetime(2024, 3, 1, tzinfo=UTC)


def records(file: int, rows: int = 300) -> list[Row]:
    """What one file brings: a day of contracts, many signed at one time, some late, some sent again or corrected."""
    chance = random.Random(file)
    return [_record(chance, file, number, rows) for number in range(rows)]


def _record(chance: random.Random, file: int, number: int, rows: int) -> Row:
    late = chance.random() < 0.1
    again = file > 0 and chance.random() < 0.05
    contract = chance.randrange(file * rows) if again else file * rows + number
    signed = _START + timedelta(days=file - (chance.randint(1, 3) if late else 0), minutes=10 * chance.randrange(144))
    return {"project": chance.randrange(12), "contract": contract, "signed": f"{signed:%Y-%m-%dT%H:%M:%SZ}"}


def lines(rows: Iterable[Row]) -> list[str]:
    """A JSON text a record."""
    return [json.dumps(row) for row in rows]


def drop(folder: Path, *files: int) -> None:
    """Let files arrive, each whole at once."""
    for file in files:
        unfinished = folder / f"_{file:02d}"
        unfinished.write_text("\n".join(lines(records(file))) + "\n")
        unfinished.rename(folder / f"contracts-{file:02d}.json")


def ranks(rows: Iterable[Row]) -> list[Row]:
    """The dense rank of each contract within its project, the newest record of a contract alone counting."""
    newest = {row["contract"]: row for row in rows}
    times: dict[int, set[str]] = {}
    for row in newest.values():
        times.setdefault(row["project"], set()).add(row["signed"])
    rank = {(project, at): n for project, ats in times.items() for n, at in enumerate(sorted(ats), start=1)}
    return [row | {"rank": rank[row["project"], row["signed"]]} for _, row in sorted(newest.items())]
