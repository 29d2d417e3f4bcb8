"""How commands are declared, and what their arguments may say."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..domain.duration import parse_duration
from ..domain.errors import ConfigError
from ..domain.label import Label
from .output import FORMATS

if TYPE_CHECKING:
    from .api import Moment


def add_command(commands: Any, name: str, about: str, function: Any) -> argparse.ArgumentParser:
    """Declare a command on a deployment; `function` is called with what is given to it."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    command.add_argument("config", metavar="CONFIG", help="the deployment's TOML file")
    command.set_defaults(command=function, name=name)
    return command


def add_format(command: argparse.ArgumentParser) -> None:
    """Let a command be told in what form it prints rows."""
    command.add_argument("--format", choices=list(FORMATS), default="table")


def count(text: str) -> int:
    """A number of rows."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)


def utc_time(text: str) -> datetime:
    """An ISO-8601 time, in UTC where it names no zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no ISO-8601 time such as 2024-03-01T09:00:00Z") from error
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def day(text: str) -> date:
    """A day."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2024-03-01") from error


def version(text: str) -> Moment:
    """The number of an epoch, ``label:`` and a label, or a time."""
    kind, colon, rest = text.partition(":")
    if colon and kind == "label":
        return label(rest)
    return int(text) if text.removeprefix("-").isdecimal() else utc_time(text)


def label(text: str) -> Label:
    """The label of a version."""
    try:
        return Label.parse(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_duration(text: str) -> timedelta:
    """A duration such as ``2h``, longer than nothing."""
    try:
        duration = parse_duration(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if duration <= timedelta():
        raise argparse.ArgumentTypeError(f"{text!r} is no time at all")
    return duration
