"""The command ``headwater dead-letters``: prints records that could not be used, and reads them again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...domain.source import dead_letter
from .arguments import add_command, add_format
from .console import print_message, print_progress
from .durable import open_durable
from .output import rows, write

if TYPE_CHECKING:
    import argparse

    from ..api import Answer
    from ..run.replay import ReplayResult

_REASONS = 20
"""At most this many reasons are printed; there may be one for each dead letter."""


def add_dead_letters(commands: Any) -> None:
    """Declare the command."""
    about = "print the records that could not be used, with the reason; with --replay, read them again after a fix"
    command = add_command(commands, "dead-letters", about, _dead_letters)
    command.add_argument("pipeline", metavar="PIPELINE")
    command.add_argument("--replay", action="store_true", help="first read them again, in a separate epoch")
    add_format(command)


def _dead_letters(options: argparse.Namespace) -> None:
    with open_durable(options, report=print_progress) as headwater:
        if options.replay:
            _print_result(options.pipeline, headwater.replay(options.pipeline))
        answer = headwater.answer(dead_letter.table(options.pipeline))
        with answer.engine.working():
            write(sys.stdout, options.format, answer.view.schema, rows(answer.frame, answer.view, answer.engine))
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
