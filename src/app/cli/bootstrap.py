"""The command ``headwater bootstrap``: loads the history of a wide table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError
from ..run.bootstrap import FILES_PER_CHUNK, HISTORY_FORMATS, HistoryTable
from .arguments import add_command, count
from .console import print_message, print_progress
from .durable import open_durable
from .signals import graceful_stop

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_bootstrap(commands: Any) -> None:
    """Declare the command."""
    about = "load the history of a wide table in bulk, before its stream takes over; resume a load that was interrupted"
    command = add_command(commands, "bootstrap", about, _bootstrap)
    command.add_argument("pipeline", metavar="PIPELINE")
    command.add_argument(
        "--from",
        dest="history",
        metavar="TOPIC=PATH[:FORMAT]",
        type=_topic_table,
        nargs="+",
        action="extend",
        required=True,
        help=f"a plain table with the history of a topic: {', '.join(HISTORY_FORMATS)}; parquet by default",
    )
    command.add_argument(
        "--stream-from",
        metavar="beginning|now|OFFSETS",
        default="beginning",
        help="where the stream takes over: OFFSETS by topic, as JSON or the name of a JSON file",
    )
    command.add_argument(
        "--files-per-chunk",
        metavar="N",
        type=count,
        default=FILES_PER_CHUNK,
        help="files of each topic in a chunk (16)",
    )


def _topic_table(text: str) -> tuple[str, HistoryTable]:
    topic, named, table = text.partition("=")
    if not (topic and named and table):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a topic and its table; write TOPIC=PATH or TOPIC=PATH:FORMAT"
        )
    try:
        return topic, HistoryTable.parse(table)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _bootstrap(options: argparse.Namespace) -> None:
    history: Mapping[str, HistoryTable] = dict(options.history)
    if len(history) < len(options.history):
        raise ConfigError("--from names a topic twice; put all files of a topic into one folder")
    with open_durable(options, report=print_progress) as headwater:
        headwater.start([options.pipeline])
        with graceful_stop(headwater, "this chunk"):
            published = headwater.bootstrap(
                options.pipeline, history, stream_from=options.stream_from, files_per_chunk=options.files_per_chunk
            )
    if published is None:
        print_message(f"headwater: {options.pipeline}: stopped; run the same command again to resume after this chunk")
    else:
        print_message(
            f"headwater: {options.pipeline}: the history is loaded as epoch {published.epoch.number}; `headwater run`"
            " continues with the stream"
        )
