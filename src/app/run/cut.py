"""Cuts a past by day."""

from __future__ import annotations

from datetime import date

from .runner import Runner


def make_cut(day: date, runner: Runner) -> None:
    """Move the days before a cut into the past of a service that has one, in a separate epoch."""
    roll = runner.service.roll
    assert roll is not None  # it has a `default_cut`
    runner.amend(f"roll {day}", lambda _epoch, snapshot: roll(day, snapshot))
