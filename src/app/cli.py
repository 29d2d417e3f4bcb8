"""The command line: ``headwater run | show | status | roll | move | check``; more in `upkeep_cli`, `dead_letters_cli`,
`plot_cli`.

Standard output carries the answer and nothing else; progress and messages go to standard error. Exit codes: 0; 1, a run
failed; 2, usage or configuration.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..domain.errors import ConfigError, HeadwaterError
from ..domain.schema import Schema
from .api import Headwater
from .arguments import add_command, add_format, count, day, epoch_or_time, utc_time
from .backends import on_one_session
from .config import load
from .dead_letters_cli import add_dead_letters
from .explain import explain
from .messages import say, tell_progress
from .output import rows, write
from .plot_cli import add_plot
from .progress import moment, tables_at
from .upkeep_cli import add_upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .api import Answer, PipelineStatus

_OK, _FAILED, _USAGE = 0, 1, 2
_STATUS = Schema.parse(
    "pipeline string, epoch bigint, published string, watermark string, waiting string, dead_letters bigint,"
    " tables string"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, the process's own arguments if none are given; the exit code."""
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
        say(f"headwater: {error}")
        return _USAGE if isinstance(error, ConfigError) else _FAILED
    except BrokenPipeError:
        # The reader has seen enough. What is still buffered must not fail again when the interpreter flushes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headwater", description="Keeps derived tables exact in near real time.")
    parser.add_argument("--version", action="version", version=f"headwater {version('headwater')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_show(commands)
    status = add_command(commands, "status", "where each pipeline stands", _status)
    add_format(status)
    _add_move(commands)
    _add_roll(commands)
    add_upkeep(commands)
    add_dead_letters(commands)
    add_plot(commands)
    add_command(commands, "check", "check the configuration, and explain what it keeps; starts nothing", _check)
    return parser


def _add_run(commands: Any) -> None:
    run = add_command(commands, "run", "run pipelines, all of them if none is named", _run)
    run.add_argument("pipelines", metavar="PIPELINE", nargs="*")
    run.add_argument("--until-idle", action="store_true", help="end when the sources are drained")
    run.add_argument(
        "--show", metavar="PIPELINE[.VIEW]", nargs="+", action="extend", default=[], help="views to print at the end"
    )
    add_format(run)


def _add_show(commands: Any) -> None:
    show = add_command(commands, "show", "print a view", _show)
    show.add_argument("view", metavar="PIPELINE[.VIEW]")
    show.add_argument("--at", metavar="EPOCH|TIME", type=epoch_or_time, help="as known at an epoch or a time")
    show.add_argument("--as-of", metavar="TIME", type=utc_time, help="only what had happened up to this event time")
    show.add_argument("--since", metavar="EPOCH|TIME", type=epoch_or_time, help="where a view of changes starts from")
    show.add_argument("--limit", metavar="N", type=count, help="at most so many rows")
    add_format(show)


def _add_move(commands: Any) -> None:
    move = add_command(commands, "move", "copy all pipelines to another backend, to go on there", _move)
    move.add_argument("--to", metavar="BACKEND", required=True, help="the name of the backend")
    move.add_argument("--path", required=True, help="the folder of its tables, from the file's folder")


def _add_roll(commands: Any) -> None:
    roll = add_command(commands, "roll", "put the days before a cut into a retraction's past", _roll)
    roll.add_argument("pipeline", metavar="PIPELINE")
    roll.add_argument("--cut", metavar="DAY", type=day, help="that of the watermark if not given")


def _run(options: argparse.Namespace) -> None:
    if options.show and not options.until_idle:
        raise ConfigError("--show prints views when the run has ended: add --until-idle")
    with Headwater.from_config(options.config, report=tell_progress) as headwater:
        for name in options.show:
            headwater.find(name)
        named = options.pipelines or None
        # Spark takes over the interrupt signal when it starts, so it must have started before ours is set.
        headwater.start(named)
        with _graceful_stop(headwater):
            headwater.run(named, until_idle=options.until_idle)
        for name in options.show:
            _print(headwater.answer(name), options.format, title=name if len(options.show) > 1 else None)


@contextmanager
def _graceful_stop(headwater: Headwater) -> Iterator[None]:
    """On the first signal the run ends after the epoch under way; a second one ends it at once."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        say("headwater: stopping after this epoch; once more to stop at once")
        headwater.stop()

    former = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


def _show(options: argparse.Namespace) -> None:
    with Headwater.from_config(options.config) as headwater:
        answer = headwater.answer(options.view, at=options.at, as_of=options.as_of, since=options.since)
        if headwater.epoch(options.view.partition(".")[0]) < 0:
            kept = headwater.deployment.backend.name != "memory"
            why = "run it first" if kept else "the memory backend keeps nothing beyond its run; use run --show"
            say(f"headwater: nothing is published yet: {why}")
        _print(answer, options.format, limit=options.limit)


def _print(answer: Answer, form: str, *, limit: int | None = None, title: str | None = None) -> None:
    if title and form == "table":
        print(f"{title}:")
    with answer.engine.explaining():
        write(sys.stdout, form, answer.view.schema, rows(answer.frame, answer.view, answer.engine, limit))


def _status(options: argparse.Namespace) -> None:
    with Headwater.from_config(options.config) as headwater:
        write(sys.stdout, options.format, _STATUS, map(_status_row, headwater.status()))


def _status_row(status: PipelineStatus) -> list[str | int | None]:
    if (latest := status.publication) is None:
        return [status.pipeline, None, None, None, status.lag, None, None]
    place = (status.pipeline, latest.epoch.number)
    times = (moment(latest.published_at), moment(latest.watermark))
    return [*place, *times, status.lag, status.dead_letters, tables_at(latest)]


def _move(options: argparse.Namespace) -> None:
    there = {**os.environ, "HEADWATER_BACKEND__NAME": options.to, "HEADWATER_BACKEND__PATH": options.path}
    here, target = on_one_session(load(options.config), load(options.config, there))
    with Headwater(here) as headwater, Headwater(target) as other:
        moved = headwater.move(other)
    for pipeline, publication in moved.items():
        say(f"headwater: moved {pipeline} as of epoch {publication.epoch.number}")
    say(f'headwater: to go on there, set backend.name = "{options.to}" and backend.path = "{options.path}"')


def _roll(options: argparse.Namespace) -> None:
    with Headwater.from_config(options.config) as headwater:
        cut = headwater.roll(options.pipeline, options.cut)
    say(f"headwater: {options.pipeline}: the past holds all days before {cut}")


def _check(options: argparse.Namespace) -> None:
    for line in explain(Headwater.from_config(options.config)):
        print(line)
