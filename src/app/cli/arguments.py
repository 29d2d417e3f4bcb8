"""Declares commands and parses their arguments."""

from __future__ import annotations

import argparse
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from ...domain.errors import ConfigError
from ...domain.ledger.label import Label
from ..read.moments import read_duration, read_moment, read_time
from .output import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..read.moments import Moment

_T = TypeVar("_T")


def add_command(
    commands: Any, name: str, about: str, function: Any, *, optional_config: bool = False
) -> argparse.ArgumentParser:
    """Declare a command on a deployment; `function` is called with the parsed arguments."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    nargs = "?" if optional_config else None
    command.add_argument("config", metavar="CONFIG", nargs=nargs, help="the deployment's TOML file")
    command.set_defaults(command=function, name=name)
    return command


def add_format(command: argparse.ArgumentParser) -> None:
    """Add the option ``--format``: how the command prints rows."""
    command.add_argument("--format", choices=list(FORMATS), default="table")


def count(text: str) -> int:
    """A number of rows."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows: write a whole number, such as 10")
    return int(text)


def utc_time(text: str) -> datetime:
    """An ISO-8601 time; in UTC if it has no zone."""
    return _argument(read_time, text)


def day(text: str) -> date:
    """A date in ISO-8601."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2024-03-01") from error


def version(text: str) -> Moment:
    """A version: the number of an epoch, ``label:LABEL``, or a time."""
    return _argument(read_moment, text)


def label(text: str) -> Label:
    """The label of a version."""
    return _argument(Label.parse, text)


def positive_duration(text: str) -> timedelta:
    """A duration such as ``2h``, greater than zero."""
    duration = _argument(read_duration, text)
    if duration <= timedelta():
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration greater than zero, such as 2h")
    return duration


def _argument(read: Callable[[str], _T], text: str) -> _T:
    try:
        return read(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
