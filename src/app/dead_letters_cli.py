"""The command of records that could not be used: ``headwater dead-letters``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..domain import dead_letter
from .arguments import add_command, add_format
from .durable import open_durable
from .messages import say, tell_progress
from .output import rows, write

if TYPE_CHECKING:
    import argparse

    from .api import Answer
    from .replay import Replayed

_REASONS = 20
"""How many reasons are told; there may be one a letter."""


def add_dead_letters(commands: Any) -> None:
    """Declare the command."""
    about = "print the records that could not be used, and why; read them once more after a fix"
    command = add_command(commands, "dead-letters", about, _dead_letters)
    command.add_argument("pipeline", metavar="PIPELINE")
    command.add_argument("--replay", action="store_true", help="read them once more first, in an epoch of its own")
    add_format(command)


def _dead_letters(options: argparse.Namespace) -> None:
    with open_durable(options, report=tell_progress) as headwater:
        if options.replay:
            _tell(options.pipeline, headwater.replay(options.pipeline))
        answer = headwater.answer(dead_letter.table(options.pipeline))
        with answer.engine.working():
            write(sys.stdout, options.format, answer.view.schema, rows(answer.frame, answer.view, answer.engine))
            _tell_reasons(answer)


def _tell(pipeline: str, done: Replayed) -> None:
    left = f"{done.left:,} {'is' if done.left == 1 else 'are'} left"
    if done.unreadable:
        left += f", {done.unreadable:,} of them in a format that this source cannot read again"
    say(f"headwater: {pipeline}: {done.read:,} read once more, {done.rows:,} rows of theirs went in; {left}")


def _tell_reasons(answer: Answer) -> None:
    """The number of letters by reason, most first."""
    listed = dead_letter.reasons(answer.frame, _REASONS + 1)
    for reason, letters in listed[:_REASONS]:
        say(f"headwater: {letters:,} x {reason}")
    if len(listed) > _REASONS:
        say("headwater: … and for other reasons")
