"""The commands that read views: ``headwater show | diff | wait-for``."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

import click

from ...domain.epoch.watermark import format_time
from ...domain.ledger.label import Label
from ...domain.table.schema import Schema
from ..api import Headwater
from ..api.pipeline import Answer
from ..read.moments import Moment
from ..run.progress import show_time, tables_at
from .arguments import AT, FORMAT, LIMIT, PIPELINE, VIEW, command, parse_label, positive_duration, utc_time, version
from .console import print_message
from .durable import open_durable
from .output import write, write_view

_REACHED = Schema.parse("pipeline string, epoch bigint, watermark string, published string, tables string")


@command
@VIEW
@AT
@click.option("--label", metavar="LABEL", type=parse_label, help="the newest version with this label")
@click.option("--as-of", metavar="TIME", type=utc_time, help="only rows up to this event time")
@click.option("--since", metavar="VERSION", type=version, help="the version that a view of changes starts from")
@click.option(
    "--longest",
    metavar="DURATION",
    type=positive_duration,
    help="refuse to read a version that may expire within this time",
)
@click.option("--read-optimized", is_flag=True, help="read base files only, as of their last compaction")
@LIMIT
@FORMAT
def show(*, config: str, view: str, label: Label | None, form: str, limit: int | None, **how: Any) -> None:
    """Print a view; by default the first one of a pipeline."""
    if label is not None:
        if how["at"] is not None:
            raise click.UsageError("--at and --label both name the version: leave one of them out")
        how["at"] = label
    with open_durable(config) as headwater:
        answer = headwater.answer(view, **how)
        _note_if_unpublished(headwater, view)
        print_answer(answer, form, limit=limit)


@command
@VIEW
@click.option(
    "--from",
    "after",
    metavar="VERSION",
    type=version,
    help="an epoch, a time or label:LABEL; by default the epoch before --to; -1 is before the first",
)
@click.option("--to", "until", metavar="VERSION", type=version, help="by default the newest one")
@LIMIT
@FORMAT
def diff(*, config: str, view: str, after: Moment | None, until: Moment | None, limit: int | None, form: str) -> None:
    """Print how a view differs between two versions, as row kinds."""
    with open_durable(config) as headwater:
        answer = headwater.difference(view, after=after, until=until)
        _note_if_unpublished(headwater, view)
        print_answer(answer, form, limit=limit)


@command
@PIPELINE
@click.option("--watermark", metavar="TIME", type=utc_time, required=True, help="the event time to wait for")
@click.option("--timeout", metavar="DURATION", type=positive_duration, help="by default no timeout")
@FORMAT
def wait_for(*, config: str, pipeline: str, watermark: datetime, timeout: timedelta | None, form: str) -> None:
    """Wait until a pipeline's watermark has reached a time; exit code 3 after the timeout."""
    with open_durable(config) as headwater:
        found = headwater.wait_for(pipeline, watermark, timeout=timeout)
        reached = headwater.pipeline(pipeline).service.complete_to(found)
    times = [show_time(reached), format_time(found.published_at)]
    write(sys.stdout, form, _REACHED, [[pipeline, found.epoch.number, *times, tables_at(found)]])


def _note_if_unpublished(headwater: Headwater, view: str) -> None:
    if headwater.epoch(pipeline := view.partition(".")[0]) < 0:
        why = "its history is being loaded" if headwater.loading(pipeline) else "run it first"
        print_message(f"headwater: nothing is published yet: {why}")


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
        write_view(sys.stdout, form, answer, limit=limit)
