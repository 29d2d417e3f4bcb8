"""The command line: ``headwater run | status | roll | move | check | explain``; other modules add more commands.

Results go to standard output; progress and messages go to standard error. Exit codes: 0, success; 1, the command
failed; 2, wrong usage or configuration; 3, `wait-for` timed out.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError, HeadwaterError, WaitTimeout
from ...domain.table.schema import Schema
from ..api import Headwater
from ..config import load
from ..registry.backends import on_one_session
from ..run.progress import kept, moment, tables_at
from ..wiring.checks import check_packages, check_queries
from .arguments import add_command, add_format, day
from .bootstrap import add_bootstrap
from .console import print_message, print_progress
from .dead_letters import add_dead_letters
from .durable import check_durable, check_target, open_durable
from .explain import explain
from .explain_view import explain_view
from .output import write
from .plot import add_plot
from .read import add_reading, print_answer
from .signals import graceful_stop
from .upkeep import add_upkeep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..api import PipelineStatus

_OK, _FAILED, _USAGE, _TIMEOUT = 0, 1, 2, 3
_CODES: dict[type[HeadwaterError], int] = {ConfigError: _USAGE, WaitTimeout: _TIMEOUT}
_STATUS = Schema.parse(
    "pipeline string, epoch bigint, published string, watermark string, waiting string, dead_letters bigint,"
    " repeats bigint, expected_latency string, measured_latency string, tables string, bookkeeping string,"
    " alarms string"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; by default with the arguments of the process."""
    options = _parser().parse_args(arguments)
    # What other programs read must not depend on the locale or the platform.
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        options.command(options)
        sys.stdout.flush()
    except HeadwaterError as error:
        if os.environ.get("HEADWATER_DEBUG"):
            raise
        print_message(": ".join(["headwater", *getattr(error, "__notes__", ()), str(error)]))
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), _FAILED)
    except BrokenPipeError:
        # The reader has closed the pipe. The interpreter flushes the buffer at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headwater", description="Keeps derived tables exact in near real time.")
    parser.add_argument("--version", action="version", version=f"headwater {version('headwater')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    add_bootstrap(commands)
    add_reading(commands)
    status = add_command(commands, "status", "print the status of each pipeline", _status)
    add_format(status)
    _add_move(commands)
    _add_roll(commands)
    add_upkeep(commands)
    add_dead_letters(commands)
    add_plot(commands)
    explain_command = add_command(
        commands, "explain", "explain what a change of each input of a view recomputes; starts nothing", _explain
    )
    explain_command.add_argument("view", metavar="VIEW", help="the pipeline of a materialized view")
    add_command(commands, "check", "check the configuration, and explain its tables and views; starts nothing", _check)
    return parser


def _add_run(commands: Any) -> None:
    run = add_command(commands, "run", "run pipelines, by default all of them", _run, optional_config=True)
    run.add_argument("pipelines", metavar="PIPELINE", nargs="*")
    run.add_argument("--until-idle", action="store_true", help="end when the sources are drained")
    run.add_argument(
        "--show",
        metavar="PIPELINE[.VIEW]",
        nargs="+",
        action="extend",
        default=[],
        help="a view to print at the end; may be repeated",
    )
    add_format(run)


def _add_move(commands: Any) -> None:
    move = add_command(commands, "move", "copy all pipelines to another backend, to resume there", _move)
    move.add_argument("--to", metavar="BACKEND", required=True, help="the name of the backend")
    move.add_argument("--path", required=True, help="the folder of its tables, relative to the folder of CONFIG")


def _add_roll(commands: Any) -> None:
    roll = add_command(commands, "roll", "put the days before a cut into a retraction's past", _roll)
    roll.add_argument("pipeline", metavar="PIPELINE")
    roll.add_argument("--cut", metavar="DAY", type=day, help="by default the day of the watermark")


def _return_config(options: argparse.Namespace) -> None:
    """Give back the arguments that `--show` took too many: the file, and the pipelines after it.

    Raises:
        ConfigError: no file is named.
    """
    if options.config is not None:
        return
    at = next((at for at, each in enumerate(options.show) if each.endswith(".toml") or Path(each).is_file()), None)
    if at is None:
        raise ConfigError("the deployment's TOML file is missing: headwater run CONFIG [PIPELINE …] [--show VIEW …]")
    options.show, (options.config, *options.pipelines) = options.show[:at], options.show[at:]


def _run(options: argparse.Namespace) -> None:
    _return_config(options)
    if options.show and not options.until_idle:
        raise ConfigError("--show prints views when the run has ended: add --until-idle")
    with Headwater.from_config(options.config, report=print_progress) as headwater:
        for name in options.show:
            headwater.find(name)
        named = options.pipelines or None
        # Spark takes over the interrupt signal when it starts, so it must have started before ours is set.
        headwater.start(named)
        with graceful_stop(headwater, "this epoch"):
            headwater.run(named, until_idle=options.until_idle)
        for name in options.show:
            print_answer(headwater.answer(name), options.format, title=name if len(options.show) > 1 else None)


def _status(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        write(sys.stdout, options.format, _STATUS, map(_status_row, headwater.status()))


def _status_row(status: PipelineStatus) -> list[str | int | None]:
    spans = [str(span) if span else None for span in (status.latency.expected, status.latency.measured)]
    waits = "; ".join(f"{name}: {kept(each)}" for name, each in status.bookkeeping.items())
    notes = (waits or None, "; ".join(status.alarms) or None)
    if (latest := status.publication) is None:
        return [status.pipeline, None, None, None, status.lag, None, None, *spans, None, *notes]
    place = (status.pipeline, latest.epoch.number)
    times = (moment(latest.published_at), moment(latest.watermark))
    return [*place, *times, status.lag, status.dead_letters, status.repeats, *spans, tables_at(latest), *notes]


def _move(options: argparse.Namespace) -> None:
    there = {**os.environ, "HEADWATER_BACKEND__NAME": options.to, "HEADWATER_BACKEND__PATH": options.path}
    here, target = on_one_session(load(options.config), load(options.config, there))
    check_durable(here, options)
    check_target(target)
    with Headwater(here) as headwater, Headwater(target) as other:
        publications = headwater.move(other)
    for pipeline, publication in publications.items():
        print_message(f"headwater: moved {pipeline} as of epoch {publication.epoch.number}")
    print_message(f'headwater: to resume there, set backend.name = "{options.to}" and backend.path = "{options.path}"')


def _roll(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        cut = headwater.roll(options.pipeline, options.cut)
    print_message(f"headwater: {options.pipeline}: the past contains all days before {cut}")


def _check(options: argparse.Namespace) -> None:
    headwater = Headwater.from_config(options.config)
    check_packages(headwater.deployment)
    open_questions = list(check_queries(headwater.deployment, headwater.services))
    for line in explain(headwater):
        print(line)
    for each in open_questions:
        print_message(f"headwater: not checked: {each}")


def _explain(options: argparse.Namespace) -> None:
    for line in explain_view(Headwater.from_config(options.config), options.view):
        print(line)
