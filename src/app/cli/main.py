"""The command line: ``headwater run | status | roll | move | check | explain``; other modules add more commands.

Results go to standard output; progress and messages go to standard error. Exit codes: 0, success; 1, the command
failed; 2, wrong usage or configuration; 3, `wait-for` timed out; 130, interrupted.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import json
import logging
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import date
from functools import partial
from pathlib import Path

import click
from click.shell_completion import shell_complete

from ...domain.errors import ConfigError, HeadwaterError, WaitTimeout, with_place
from ..api import Headwater
from ..config import Deployment, load
from ..config.json_schema import json_schema
from ..config.template import template
from ..read.find_view import find_pipelines
from ..registry.backends import load_backend, on_one_session
from ..services.kind import kind_of
from ..wiring.checks import check_bulk_loads, check_clients, check_packages, check_queries, describe_engines
from .arguments import ABOUT_CONFIG, FORMAT, PIPELINE, command, day
from .bootstrap import bootstrap
from .console import ERROR, LOG_FORM, VERBOSITY, WARNING, MessageHandler, choose_bars, open_nowhere, print_message
from .dead_letters import dead_letters
from .durable import check_target, load_durable, open_durable
from .explain import explain as explain_deployment
from .output import OutputError, write
from .plan import plan
from .plot import plot
from .read import diff, print_answer, show, wait_for
from .rebuild import rebuild
from .serve import serve
from .signals import graceful_stop
from .upkeep import compact, expire, explain_retention, pin, unpin, versions

_OK, _FAILED, _USAGE, _TIMEOUT, _INTERRUPTED = 0, 1, 2, 3, 128 + signal.SIGINT
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC)
_WHOLE = 1000  # characters of a sentence
_COMPLETE = "_HEADWATER_COMPLETE"
_ALLOCATORS = {
    "_RJEM_MALLOC_CONF": f"dirty_decay_ms:10000,muzzy_decay_ms:10000,narenas:{max(1, (os.cpu_count() or 1) // 2)}",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Polars' allocator keeps freed memory for ten seconds, and not for half a second: epochs take as much again. Threads
cannot use what another arena of it keeps, so two cores share one, and do not have four each. That of Arrow would give
memory back after a hundredth of a second.
"""
_CODES: dict[type[HeadwaterError], int] = {ConfigError: _USAGE, WaitTimeout: _TIMEOUT}


class _Commands(click.Group):
    """Lists its commands by section."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for title, commands in SECTIONS.items():
            rows = [(f"{each.name:<{width}}", each.get_short_help_str(_WHOLE)) for each in commands]
            with formatter.section(title):
                formatter.write_dl(rows)


def _tell_allocators() -> None:
    for name, value in _ALLOCATORS.items():  # read when Polars and Arrow are imported
        os.environ.setdefault(name, value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; by default with the arguments of the process."""
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(COMMANDS, {}, "headwater", _COMPLETE, instruction)
    if sys.stdout is None:  # its descriptor is closed
        sys.stdout = io.TextIOWrapper(io.BytesIO())
    # What other programs read must not depend on the locale or the platform.
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    LOG_FORM.json = False
    _tell_allocators()
    atexit.register(gc.freeze)  # or Python looks for garbage among all objects once more: a fifth of a short command
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[MessageHandler()])
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with COMMANDS.make_context("headwater", given or ["--help"]) as context:
            return _invoke(context)
    except click.exceptions.Exit as ended:
        raise SystemExit(ended.exit_code) from ended
    except click.UsageError as error:
        _explain_usage(error)
        raise SystemExit(_USAGE) from error
    except KeyboardInterrupt:
        print_message("headwater: interrupted", WARNING)
        return _INTERRUPTED
    except OSError as error:
        if not _is_of_output(error):
            raise
        return _end_output(error)


def _is_of_output(error: OSError) -> bool:
    """Whether standard output is full, or its reader has closed it."""
    if error.errno not in _OF_OUTPUT or error.filename is not None:
        return False
    if not isinstance(error, BrokenPipeError):
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # no event is asked for: errors are always reported
    return bool(poll.poll(0))


def _explain_usage(error: click.UsageError) -> None:
    if error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
    name = error.ctx.command_path if error.ctx else "headwater"
    print_message(f"{name}: error: {error.format_message()}", ERROR)


def _end_output(error: OSError) -> int:
    """End after standard output could not be written: successfully, if its reader has closed the pipe."""
    sys.stdout = open_nowhere()  # the interpreter flushes it at exit, which must not fail again
    if isinstance(error, BrokenPipeError):
        return _OK
    print_message(f"headwater: cannot write the output: {error.strerror}", ERROR)
    return _FAILED


def _invoke(context: click.Context) -> int:
    try:
        COMMANDS.invoke(context)
        sys.stdout.flush()
    except OutputError as error:
        return _end_output(error.error)
    except HeadwaterError as error:
        if context.meta.get("verbose") or os.environ.get("HEADWATER_DEBUG", "0") != "0":
            traceback.print_exception(error)
        print_message(f"headwater: {with_place(error)}", ERROR)
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), _FAILED)
    return _OK


@partial(command, needs_config=False)
@click.argument("pipelines", metavar="[PIPELINE]...", nargs=-1)
@click.option("--until-idle", is_flag=True, help="end when the sources are drained")
@click.option("--show", metavar="PIPELINE[.VIEW]", multiple=True, help="a view to print at the end; may be repeated")
@FORMAT
def run(*, config: str | None, pipelines: Sequence[str], until_idle: bool, show: Sequence[str], form: str) -> None:
    """Run pipelines, by default all of them."""
    if config is None:
        show, config, pipelines = _split(show)
    if show and not until_idle:
        raise ConfigError("--show prints views when the run has ended: add --until-idle")
    report, bars = choose_bars(backlog=until_idle)
    with Headwater.from_config(config, report=report) as headwater:
        for name in show:
            headwater.find(name)
        named = pipelines or None
        # Spark takes over the interrupt signal when it starts, so it must have started before ours is set.
        for runner in headwater.start(named):
            _warn_of_programs(runner.pipeline, headwater.deployment)
        with graceful_stop(headwater, "this epoch"), bars:
            headwater.run(named, until_idle=until_idle)
        for name in show:
            print_answer(headwater.answer(name), form, title=name if len(show) > 1 else None)


def _warn_of_programs(pipeline: str, deployment: Deployment) -> None:
    """Warn of sources that only a program feeds; an epoch may still follow the clock, or read a chunk."""
    for name in dict.fromkeys(deployment.pipelines[pipeline].sources):
        if deployment.sources[name].input.submitted:
            print_message(
                f'{pipeline}: source {name!r} is of kind "stream": a Python program hands over its rows, by `push` or'
                " `foreach_batch`; this run reads none of it",
                WARNING,
            )


def _split(show: Sequence[str]) -> tuple[Sequence[str], str, Sequence[str]]:
    """Split the values of `--show` into views, the file, and the pipelines after it.

    Raises:
        ConfigError: no file is named.
    """
    at = next((at for at, each in enumerate(show) if each.endswith(".toml") or Path(each).is_file()), None)
    if at is None:
        raise ConfigError("the deployment's TOML file is missing: headwater run CONFIG [PIPELINE …] [--show VIEW …]")
    return show[:at], show[at], show[at + 1 :]


@command
@FORMAT
def status(*, config: str, form: str) -> None:
    """Print the status of each pipeline; exit code 1 if one cannot be read."""
    with open_durable(config) as headwater:
        found = headwater.status()
        write(sys.stdout, form, found.columns, found.rows)
    if error := next((each.error for each in found if each.error), None):
        raise error


@command
@click.option("--to", metavar="BACKEND", required=True, help="the name of the backend")
@click.option(
    "--path", metavar="PATH", required=True, help="the folder of its tables, relative to the folder of CONFIG"
)
def move(*, config: str, to: str, path: str) -> None:
    """Copy all pipelines to another backend, to resume there."""
    if not path:
        raise ConfigError("--path is empty: name the folder of the tables")
    load_backend(to)
    there = {**os.environ, "HEADWATER_BACKEND__NAME": to, "HEADWATER_BACKEND__PATH": path}
    target = load(config, there)
    here, target = on_one_session(load_durable(config), target)
    check_target(target)
    with Headwater(here) as headwater, Headwater(target) as other:
        publications = headwater.move(other)
    for pipeline, publication in publications.items():
        print_message(f"headwater: moved {pipeline} as of epoch {publication.epoch.number}")
    print_message(f'headwater: to resume there, set backend.name = "{to}" and backend.path = "{path}"')


@command
@PIPELINE
@click.option("--cut", metavar="DAY", type=day, help="by default the day of the watermark; without one, today")
def roll(*, config: str, pipeline: str, cut: date | None) -> None:
    """Put the days before a cut into a retraction's past."""
    with open_durable(config) as headwater:
        reached = headwater.roll(pipeline, cut)
    print_message(f"headwater: {pipeline}: the past contains all days before {reached}")


@command
def check(*, config: str) -> None:
    """Check the configuration, and explain its tables and views; starts nothing."""
    headwater = Headwater.from_config(config)
    find_pipelines(headwater.deployment.pipelines, None)
    check_packages(headwater.deployment)
    check_clients(headwater.deployment)
    check_bulk_loads(headwater.deployment)
    open_questions = list(check_queries(headwater.deployment, headwater.services))
    engines = describe_engines(headwater.deployment, headwater.services)
    for line in explain_deployment(headwater, engines):
        click.echo(line)
    for each in open_questions:
        print_message(f"headwater: not checked: {each}", WARNING)


@command
@PIPELINE
def explain(*, config: str, pipeline: str) -> None:
    """Explain what a change of each input of a materialized view recomputes; starts nothing."""
    headwater = Headwater.from_config(config)
    name, _ = headwater.find(pipeline)
    settings = headwater.deployment.pipelines[name]
    for line in kind_of(settings).explain(settings.service, headwater.services[name]):
        click.echo(line)


@click.command(
    epilog="SERVICE is ranking, retraction, cumulate, wide_table, snapshots, bulk_merge or materialized_view."
)
@click.argument("service", metavar="SERVICE")
@click.option("--backend", metavar="NAME", default="memory", help="the name of the backend; memory by default")
def init(*, service: str, backend: str) -> None:
    """Print a deployment file with an example of a service and every key; starts nothing."""
    load_backend(backend)
    click.echo(template(service, backend), nl=False)


@click.command(epilog="Editors use it to complete and check deployment files.")
def schema() -> None:
    """Print the JSON Schema of the configuration; starts nothing."""
    click.echo(json.dumps(json_schema(), indent=2))


SECTIONS = {
    "Run": [run, bootstrap, rebuild, roll, move],
    "Read": [show, diff, wait_for, plot],
    "Look after": [status, serve, dead_letters, check, plan, explain],
    "Keep versions": [versions, explain_retention, expire, pin, unpin, compact],
    "Write a configuration": [init, schema],
}
COMMANDS = _Commands(
    "headwater",
    params=list(VERBOSITY),
    commands=[each for commands in SECTIONS.values() for each in commands],
    no_args_is_help=False,
    help="Keeps derived tables exact in near real time.",
    epilog=ABOUT_CONFIG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(package_name="headwater", message="headwater %(version)s")(COMMANDS)
