"""The command ``headwater dead-letters``: prints records that could not be used, and reads them again."""

from __future__ import annotations

import sys

import click

from ...domain.source import dead_letter
from ..api.pipeline import Answer
from ..run.replay import ReplayResult
from .arguments import FORMAT, PIPELINE, command
from .console import choose_report, print_message
from .durable import open_durable
from .output import write_view

_REASONS = 20
"""At most this many reasons are printed; there may be one for each dead letter."""


@command
@PIPELINE
@click.option("--replay", is_flag=True, help="first read them again, in a separate epoch")
@FORMAT
def dead_letters(*, config: str, pipeline: str, replay: bool, form: str) -> None:
    """Print the records that could not be used, with the reason; with --replay, read them again after a fix."""
    with open_durable(config, choose_report()) as headwater:
        if replay:
            _print_result(pipeline, headwater.replay(pipeline))
        answer = headwater.answer(dead_letter.table(pipeline))
        with answer.engine.working():
            write_view(sys.stdout, form, answer)
            _print_reasons(answer)


def _print_result(pipeline: str, result: ReplayResult) -> None:
    left = f"{result.left:,} {'is' if result.left == 1 else 'are'} left"
    if result.unreadable:
        left += f", {result.unreadable:,} of them in a format that this source cannot read again"
    print_message(f"headwater: {pipeline}: {result.read:,} read again, {result.rows:,} of their rows were used; {left}")


def _print_reasons(answer: Answer) -> None:
    """Print the number of dead letters by reason, the most frequent first."""
    listed = dead_letter.reasons(answer.frame, _REASONS + 1)
    for reason, count in listed[:_REASONS]:
        print_message(f"headwater: {count:,} x {reason}")
    if len(listed) > _REASONS:
        print_message("headwater: … and for other reasons")
