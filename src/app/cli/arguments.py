"""Declares commands and parses their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

import click

from ...domain.errors import ConfigError
from ...domain.ledger.label import Label
from ..document.paths import check_working_directory
from ..read.moments import Moment, read_duration, read_moment, read_time
from .console import VERBOSITY
from .output import FORMATS

_T = TypeVar("_T")

_MOST = 2**31 - 1  # rows that Spark can be asked for
ABOUT_CONFIG = "CONFIG is the deployment's TOML file."


def command(function: Callable[..., None], *, needs_config: bool = True) -> click.Command:
    """Make a function a command on a deployment: its first argument is the file, its docstring the help."""
    config = click.argument("config", metavar="CONFIG", type=click.Path(), required=needs_config)
    made = click.command(cls=_Command, epilog=ABOUT_CONFIG)(config(function))
    made.params += VERBOSITY
    return made


class _Command(click.Command):
    """A command that also takes what its users have always written: options cut short, and values one after another.

    ``--until`` means ``--until-idle``; ``--show A B`` means ``--show A --show B``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        whole = [_complete(each, {name for option in options for name in option.opts}) for each in args]
        repeatable = {name for option in options if option.multiple for name in option.opts}
        return super().parse_args(ctx, list(_repeat(whole, repeatable)))

    def invoke(self, ctx: click.Context) -> Any:
        check_working_directory()  # DuckDB and Java need one, whatever the paths
        return super().invoke(ctx)


def _complete(argument: str, options: set[str]) -> str:
    """Complete an option that is cut short, if only one begins like it."""
    name, *value = argument.split("=", 1)
    if not name.startswith("--") or name in options:
        return argument
    possible = [each for each in options if each.startswith(name)]
    return "=".join([*possible, *value]) if len(possible) == 1 else argument


def _repeat(arguments: list[str], options: set[str]) -> Iterator[str]:
    """Yield the arguments; name an option again before each of its values after the first."""
    option = ""
    for before, each in pairwise(["", *arguments]):
        if each.startswith("-"):
            option = each if each in options else ""
        elif option and before != option:
            yield option
        yield each


def count(text: str) -> int:
    """A number of rows, groups or files."""
    if text.startswith("-") and text[1:].isdecimal():
        raise click.BadParameter(f"{text!r} is negative; give a whole number from 0 on, such as 10")
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a whole number, such as 10")
    if len(text) > len(str(_MOST)) or int(text) > _MOST:
        raise click.BadParameter(f"{text} is too large: at most {_MOST}")
    return int(text)


def utc_time(text: str) -> datetime:
    """An ISO-8601 time; in UTC if it has no zone."""
    return argument(read_time, text)


def day(text: str) -> date:
    """A date in ISO-8601."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a date such as 2024-03-01") from error


def version(text: str) -> Moment:
    """A version: the number of an epoch, ``label:LABEL``, or a time."""
    return argument(read_moment, text)


def parse_label(text: str) -> Label:
    """The label of a version."""
    return argument(Label.parse, text)


def positive_duration(text: str) -> timedelta:
    """A duration such as ``2h``, greater than zero."""
    duration = argument(read_duration, text)
    if duration <= timedelta():
        raise click.BadParameter(f"{text!r} is not a duration greater than zero, such as 2h")
    return duration


def argument(read: Callable[[str], _T], text: str) -> _T:
    """Read the text of an argument; what is wrong with it is wrong usage."""
    try:
        return read(text)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


FORMAT = click.option("--format", "form", type=click.Choice(list(FORMATS)), default="table", help="table by default")
PIPELINE = click.argument("pipeline", metavar="PIPELINE")
VIEW = click.argument("view", metavar="PIPELINE[.VIEW]")
ANY_PIPELINE = click.argument("pipeline", metavar="[PIPELINE]", required=False)
AT = click.option("--at", metavar="VERSION", type=version, help="the version to read: an epoch, a time or label:LABEL")
LIMIT = click.option("--limit", metavar="N", type=count, help="print at most N rows")
