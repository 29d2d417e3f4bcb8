"""Which formats the tables at the path of a deployment have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...adapters.shared.local_files import translate_errors
from ...adapters.shared.table_folders import LOGS
from ...domain.errors import ConfigError, add_place
from ...domain.ledger.generation import SEPARATOR
from ..config import Deployment


def folders_at(deployment: Deployment) -> Sequence[Path]:
    """What is at the path of a deployment, sorted by name; nothing if it is no folder of this machine.

    Raises:
        StoreUnavailable: it cannot be listed.
    """
    root = Path(deployment.backend.path or "")
    with add_place("backend.path"), translate_errors("read", root):
        return sorted(root.iterdir()) if root.is_dir() else ()


def tables_in(folder: Path) -> Iterator[tuple[str, str]]:
    """The tables in a folder of a pipeline, by name, each with its format."""
    for form, log in LOGS.items():
        yield from sorted((found.parent.name, form) for found in folder.glob(f"*/{log}"))


def check_format(deployment: Deployment, pipeline: str) -> None:
    """Refuse a pipeline whose tables are all of the other format: it would begin from nothing beside them.

    Only a folder of this machine is looked at.

    Raises:
        ConfigError: names the folder and the other format.
    """
    own = deployment.backend.name.partition("-")[0]
    if own not in LOGS:
        return
    folders = [each for each in folders_at(deployment) if each.name.partition(SEPARATOR)[0] == pipeline]
    formats = {form: folder for folder in folders for _, form in tables_in(folder)}
    if formats and own not in formats:
        form, folder = formats.popitem()
        raise ConfigError(
            f"pipeline {pipeline!r} has tables of {form} in {folder}, and backend {deployment.backend.name} would begin"
            " from nothing beside them. Name the former backend again; or copy the pipelines to another path with"
            " `headwater move`; or remove the folder"
        )
