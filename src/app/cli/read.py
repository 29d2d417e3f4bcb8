"""The commands that read views: ``headwater show | diff | wait-for``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...domain.table.schema import Schema
from ..run.progress import moment, tables_at
from .arguments import add_command, add_format, count, label, positive_duration, utc_time, version
from .console import print_message
from .durable import open_durable
from .output import rows, write

if TYPE_CHECKING:
    import argparse

    from ..api import Answer, Headwater

_REACHED = Schema.parse("pipeline string, epoch bigint, watermark string, published string, tables string")


def add_reading(commands: Any) -> None:
    """Declare the commands."""
    _add_show(commands)
    _add_diff(commands)
    _add_wait_for(commands)


def _add_show(commands: Any) -> None:
    show = add_command(commands, "show", "print a view", _show)
    show.add_argument("view", metavar="PIPELINE[.VIEW]")
    known = show.add_mutually_exclusive_group()
    known.add_argument(
        "--at", metavar="VERSION", type=version, help="the version to read: an epoch, a time or label:LABEL"
    )
    known.add_argument("--label", metavar="LABEL", type=label, dest="at", help="the newest version with this label")
    show.add_argument("--as-of", metavar="TIME", type=utc_time, help="only rows up to this event time")
    show.add_argument("--since", metavar="VERSION", type=version, help="the version that a view of changes starts from")
    show.add_argument(
        "--longest",
        metavar="DURATION",
        type=positive_duration,
        help="refuse to read a version that may expire within this time",
    )
    show.add_argument("--read-optimized", action="store_true", help="read base files only, as of their last compaction")
    show.add_argument("--limit", metavar="N", type=count, help="print at most N rows")
    add_format(show)


def _add_diff(commands: Any) -> None:
    diff = add_command(commands, "diff", "print how a view differs between two versions, as row kinds", _diff)
    diff.add_argument("view", metavar="PIPELINE[.VIEW]")
    earlier = "an epoch, a time or label:LABEL; by default the epoch before --to; -1 is before the first"
    diff.add_argument("--from", metavar="VERSION", type=version, dest="after", help=earlier)
    diff.add_argument("--to", metavar="VERSION", type=version, dest="until", help="by default the newest one")
    diff.add_argument("--limit", metavar="N", type=count, help="print at most N rows")
    add_format(diff)


def _add_wait_for(commands: Any) -> None:
    about = "wait until a pipeline's watermark has reached a time; exit code 3 after the timeout"
    wait = add_command(commands, "wait-for", about, _wait_for)
    wait.add_argument("pipeline", metavar="PIPELINE")
    wait.add_argument("--watermark", metavar="TIME", type=utc_time, required=True, help="the event time to wait for")
    wait.add_argument("--timeout", metavar="DURATION", type=positive_duration, help="by default no timeout")
    add_format(wait)


def _show(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        answer = headwater.answer(
            options.view,
            at=options.at,
            as_of=options.as_of,
            since=options.since,
            longest=options.longest,
            read_optimized=options.read_optimized,
        )
        _note_if_unpublished(headwater, options.view)
        print_answer(answer, options.format, limit=options.limit)


def _diff(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        answer = headwater.difference(options.view, after=options.after, until=options.until)
        _note_if_unpublished(headwater, options.view)
        print_answer(answer, options.format, limit=options.limit)


def _wait_for(options: argparse.Namespace) -> None:
    with open_durable(options) as headwater:
        found = headwater.wait_for(options.pipeline, options.watermark, timeout=options.timeout)
    times = [moment(found.watermark), moment(found.published_at)]
    write(sys.stdout, options.format, _REACHED, [[options.pipeline, found.epoch.number, *times, tables_at(found)]])


def _note_if_unpublished(headwater: Headwater, view: str) -> None:
    if headwater.epoch(pipeline := view.partition(".")[0]) < 0:
        print_message(f"headwater: nothing is published yet: {_explain_unpublished(headwater, pipeline)}")


def _explain_unpublished(headwater: Headwater, pipeline: str) -> str:
    return "its history is being loaded" if headwater.loading(pipeline) else "run it first"


def print_answer(answer: Answer, form: str, *, limit: int | None = None, title: str | None = None) -> None:
    """Print the rows of a view.

    Args:
        answer: the view.
        form: see `write`.
        limit: the greatest number of rows; None for all.
        title: a line above them in a table.
    """
    if title and form == "table":
        sys.stdout.write(f"{title}:\n")
    with answer.engine.working():
        write(sys.stdout, form, answer.view.schema, rows(answer.frame, answer.view, answer.engine, limit))
