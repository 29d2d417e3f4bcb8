"""Write docs/command-line.md: every command and option, from the commands themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.app.cli.console import VERBOSITY
from headwater.app.cli.main import COMMANDS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE = Path(__file__).parents[1] / "docs" / "command-line.md"
INTRODUCTION = """\
# Every command and option

`make docs` writes this page from the commands, and a test compares them. [Operations](operations.md#the-command-line)
says how the commands belong together, what they print and with which exit codes they end.

CONFIG is the deployment's TOML file. VERSION is the number of an epoch, a time, or `label:LABEL`; TIME is ISO-8601, in
UTC if it has no zone; DURATION is a number with a unit, such as `90s` or `1h30m`. An option may be cut short if only
one begins like it. `headwater --version` prints the version, `headwater --help` the list of commands.
"""


def page() -> str:
    """The page, whole."""
    return "\n".join([INTRODUCTION, *_lines()]).rstrip() + "\n"


def _lines() -> Iterator[str]:
    with click.Context(COMMANDS, info_name="headwater") as above:
        yield from ["## Options of all commands", "", *_options(VERBOSITY, above), ""]
        for title, commands in SECTIONS.items():
            yield from [f"## {title}", ""]
            for command in commands:
                yield from _describe(command, click.Context(command, parent=above, info_name=command.name))


def _describe(command: click.Command, context: click.Context) -> Iterator[str]:
    arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
    yield from [
        f"### {command.name}",
        "",
        f"`{' '.join([context.command_path, *arguments])}`",
        "",
        command.help or "",
        "",
    ]
    if options := list(_options([each for each in command.params if each not in VERBOSITY], context)):
        yield from [*options, ""]


def _options(options: Iterable[click.Parameter], context: click.Context) -> Iterator[str]:
    for option in options:
        if isinstance(option, click.Option) and (record := option.get_help_record(context)):
            name, meaning = record
            yield f"- `{name}`: {meaning.replace('  [required]', ' (required)')}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
