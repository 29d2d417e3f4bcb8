"""Messages of commands, on standard error, and the options that set how many there are and how they look."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click
from attrs import define

from ..run.progress import exact_moment, progress, show_time
from ..run.report import EpochReport

PROGRESS, WARNING, ERROR = "cyan", "yellow", "bold red"
"""Styles of messages."""
_LEVELS = {WARNING: "warning", ERROR: "error"}


@define
class LogForm:
    """How the messages of this process look.

    Args:
        json: whether each message is a JSON object with its time.
    """

    json: bool = False


LOG_FORM = LogForm()


def _be_quiet(context: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001
    if asked:
        context.meta["quiet"] = True


def _be_verbose(context: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001
    if asked:
        context.meta["verbose"] = True
        logging.getLogger("headwater").setLevel(logging.INFO)


def _choose_form(_context: click.Context, _option: click.Parameter, form: str | None) -> None:
    if form:
        LOG_FORM.json = form == "json"


_QUIET = "print no progress lines"
_VERBOSE = "print also what is logged at level INFO, and where an error comes from"
_FORM = "how messages and progress are printed: text, or a JSON object a line with its time"
VERBOSITY: list[click.Parameter] = [
    click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_be_quiet, help=_QUIET),
    click.Option(["-v", "--verbose"], is_flag=True, expose_value=False, callback=_be_verbose, help=_VERBOSE),
    click.Option(
        ["--log-format"], type=click.Choice(["text", "json"]), expose_value=False, callback=_choose_form, help=_FORM
    ),
]
"""Options of each command; they may also stand before it."""


def choose_report() -> Callable[[EpochReport], None]:
    """Return what prints the progress line of each epoch, or nothing if the command is quiet."""
    quiet = click.get_current_context().meta.get("quiet")
    return (lambda _report: None) if quiet else _print_report


def choose_bars(*, backlog: bool) -> tuple[Callable[[EpochReport], None], AbstractContextManager[object]]:
    """Return what prints progress lines, see `choose_report`, and what shows bars while it is open.

    There are bars only on a terminal, and if progress lines are printed as text.

    Args:
        backlog: whether all input is to be read; else there are bars only for bulk loads.
    """
    report = choose_report()
    if report is not _print_report or LOG_FORM.json or not (sys.stderr and sys.stderr.isatty()):
        return report, nullcontext()
    from .bars import Bars

    bars = Bars(backlog=backlog)
    return bars.below(report), bars


def _print_report(report: EpochReport) -> None:
    print_message(progress(report), PROGRESS, **_fields(report))


def _fields(report: EpochReport) -> dict[str, Any]:
    """The numbers of an epoch; those that do not apply are left out."""
    found = {
        "event": "epoch",
        "pipeline": report.epoch.pipeline,
        "epoch": report.epoch.number,
        "rows": report.rows,
        "dead_letters": report.dead_letters,
        "repeats": report.repeats,
        "written": report.written,
        "watermark": show_time(report.watermark),
        "waiting": report.lag or None,
        "task": report.task,
        "engine": report.engine,
        "seconds": {name: round(seconds, 3) for name, seconds in report.seconds.items()},
        "passed_over": dict(report.passed_over) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def print_message(text: str, style: str = "", **fields: Any) -> None:
    """Print a line on standard error; on a terminal, its first part, up to a colon, in a style.

    Args:
        text: the message.
        style: one of the styles; it also sets the level of a JSON message.
        fields: more fields of a JSON message.
    """
    if LOG_FORM.json:
        line = {"time": exact_moment(datetime.now(UTC)), "level": _LEVELS.get(style, "info"), "message": text, **fields}
        text, style = json.dumps(line, ensure_ascii=False), ""
    try:
        _print(text, style)
    except OSError:  # nobody reads messages any more, and the work goes on
        sys.stderr = open_nowhere()


def open_nowhere() -> TextIO:
    """A stream that drops what is written to it, to take the place of one that cannot be written any more."""
    return Path(os.devnull).open("w")


def _print(text: str, style: str) -> None:
    if style and sys.stderr and sys.stderr.isatty():
        from .terminal import print_styled

        print_styled(sys.stderr, text, style)
    else:
        click.echo(text, err=True)


class MessageHandler(logging.Handler):
    """Prints log records as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        print_message(self.format(record), WARNING if record.levelno >= logging.WARNING else "")
