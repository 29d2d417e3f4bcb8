"""The command ``headwater bootstrap``: loads the history of a wide table."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ...domain.errors import ConfigError
from ..run.bootstrap import FILES_PER_CHUNK, HISTORY_FORMATS, HistoryTable
from .arguments import PIPELINE, argument, command, count
from .console import choose_bars, print_message
from .durable import open_durable
from .signals import graceful_stop


def _topic_table(text: str) -> tuple[str, HistoryTable]:
    topic, named, table = text.partition("=")
    if not (topic and named and table):
        raise click.BadParameter(f"{text!r} is not a topic and its table; write TOPIC=PATH or TOPIC=PATH:FORMAT")
    return topic, argument(HistoryTable.parse, table)


@command
@PIPELINE
@click.option(
    "--from",
    "tables",
    metavar="TOPIC=PATH[:FORMAT]",
    type=_topic_table,
    multiple=True,
    required=True,
    help=f"a plain table with the history of a topic: {', '.join(HISTORY_FORMATS)}; parquet by default",
)
@click.option(
    "--stream-from",
    metavar="beginning|now|OFFSETS",
    default="beginning",
    help="where the stream takes over: OFFSETS by topic, as JSON or the name of a JSON file",
)
@click.option(
    "--files-per-chunk",
    metavar="N",
    type=count,
    default=str(FILES_PER_CHUNK),
    help=f"files of each topic in a chunk ({FILES_PER_CHUNK})",
)
def bootstrap(
    *, config: str, pipeline: str, tables: Sequence[tuple[str, HistoryTable]], stream_from: str, files_per_chunk: int
) -> None:
    """Load the history of a wide table in bulk, before its stream takes over; resume an interrupted load."""
    history = dict(tables)
    if len(history) < len(tables):
        raise ConfigError("--from names a topic twice; put all files of a topic into one folder")
    report, bars = choose_bars(backlog=True)
    with open_durable(config, report) as headwater:
        headwater.start([pipeline])
        with graceful_stop(headwater, "this chunk"), bars:
            published = headwater.bootstrap(pipeline, history, stream_from=stream_from, files_per_chunk=files_per_chunk)
    if published is None:
        print_message(f"headwater: {pipeline}: stopped; run the same command again to resume after this chunk")
    else:
        print_message(
            f"headwater: {pipeline}: the history is loaded as epoch {published.epoch.number}; `headwater run`"
            " continues with the stream"
        )
