"""Messages of commands, on standard error, and the options that set how many there are."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from ..run.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..run.report import EpochReport

PROGRESS, WARNING, ERROR = "cyan", "yellow", "bold red"
"""Styles of messages."""


def _be_quiet(context: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001
    if asked:
        context.meta["quiet"] = True


def _be_verbose(context: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001
    if asked:
        context.meta["verbose"] = True
        logging.getLogger("headwater").setLevel(logging.INFO)


_QUIET = "print no progress lines"
_VERBOSE = "print also what is logged at level INFO, and where an error comes from"
VERBOSITY: list[click.Parameter] = [
    click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_be_quiet, help=_QUIET),
    click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=_be_verbose, help=_VERBOSE),
]
"""Options of each command; they may also stand before it."""


def choose_report() -> Callable[[EpochReport], None]:
    """Return what prints the progress line of each epoch, or nothing if the command is quiet."""
    quiet = click.get_current_context().meta.get("quiet")
    return (lambda _report: None) if quiet else lambda report: print_message(progress(report), PROGRESS)


def print_message(text: str, style: str = "") -> None:
    """Print a line on standard error; on a terminal, its first part, up to a colon, in a style."""
    if style and sys.stderr.isatty():
        from .terminal import print_styled

        print_styled(sys.stderr, text, style)
    else:
        click.echo(text, err=True)


class MessageHandler(logging.Handler):
    """Prints log records as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(self.format(record), WARNING if record.levelno >= logging.WARNING else "")
