"""The command ``headwater rebuild``: builds a pipeline again with edited settings, beside its tables."""

from __future__ import annotations

import click

from ...domain.ledger.generation import folder_name
from ..run.rebuild import Rebuilt
from .arguments import PIPELINE, command
from .console import choose_bars, print_message
from .durable import open_durable
from .signals import graceful_stop


@command
@PIPELINE
@click.option("--again", is_flag=True, help="build again what was rebuilt with these settings already")
@click.option("--cancel", is_flag=True, help="give up an unfinished rebuild, so that the old tables stay")
def rebuild(*, config: str, pipeline: str, again: bool, cancel: bool) -> None:
    """Build a pipeline again with edited settings, and switch to the new tables; resume an interrupted rebuild."""
    if again and cancel:
        raise click.UsageError("--again begins a rebuild and --cancel gives one up: give one of them")
    report, bars = choose_bars(backlog=True)
    with open_durable(config, report) as headwater:
        headwater.start([pipeline])  # Spark takes over the interrupt signal when it starts
        with graceful_stop(headwater, "this epoch"), bars:
            prepared = headwater.prepare_rebuild(pipeline, report)
            found = prepared.cancel() if cancel else prepared.run(again=again)
        path = headwater.deployment.backend.path
    if found is None:
        print_message(f"headwater: {pipeline}: stopped; run the same command again to resume after this epoch")
    else:
        print_message(f"headwater: {pipeline}: {_describe(found, pipeline, f'{path}', cancelled=cancel)}")


def _describe(found: Rebuilt, pipeline: str, path: str, *, cancelled: bool) -> str:
    at = f"generation {found.generation}"
    if found.cancelled is not None:
        left = _folder(path, pipeline, found.cancelled)
        return f"gave up generation {found.cancelled}; {at} stays current. Remove the unfinished tables: {left}"
    if found.former is None:
        advice = "" if cancelled else ". To build it again all the same, add --again"
        return f"{at} is current; nothing was changed{advice}"
    epoch, left = found.publication.epoch.number if found.publication else 0, _folder(path, pipeline, found.former)
    return f"switched to {at}, at epoch {epoch}. Remove the old tables when nobody reads them any more: {left}"


def _folder(path: str, pipeline: str, generation: int) -> str:
    return f"{path.rstrip('/')}/{folder_name(pipeline, generation)}"
