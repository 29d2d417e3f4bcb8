"""The data files of a version, from the names in the table's folder: file groups, each with a base file and logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from attrs import frozen

TIMELINE = ".hoodie/timeline"
_COMPLETED = re.compile(r"(\d+)_\d+\.(?:commit|deltacommit|replacecommit)")
_BASE = re.compile(r"(?P<group>[^.].*)_[^_]+_(?P<instant>\d+)\.parquet")
_LOG = re.compile(r"\.(?P<group>.+)_(?P<instant>\d+)\.log\.(?P<number>\d+)_[^.]+")


@frozen
class Slice:
    """The files of one file group from which a version is read.

    Args:
        folder: its partition; the empty name in a table without partitions.
        group: its id.
        base: its base file, if it has one.
        logs: its log files on top, oldest first.
    """

    folder: str
    group: str
    base: Path | None
    logs: tuple[Path, ...]


def slices(
    root: Path, folders: Collection[str], version: str, find_replaced: Callable[[], Mapping[tuple[str, str], str]]
) -> Iterator[Slice]:
    """The files from which a version is read now.

    Args:
        root: the folder of the table.
        folders: the names of the partitions to read; the empty name for a table without partitions.
        version: its instant.
        find_replaced: returns the file groups, by partition and id, that are no longer read, and the instant from which
            on.
    """
    # First of all: of an instant that completes from now on, neither its files count nor what it replaces.
    instants = (_COMPLETED.fullmatch(each.name) for each in (root / TIMELINE).iterdir())
    completed = {found[1] for found in instants if found}
    first = min(completed, default="")
    replaced = {group: instant for group, instant in find_replaced().items() if instant in completed}
    for folder in folders:
        for group, (bases, logs) in _groups(root / folder).items():
            if (ended := replaced.get((folder, group))) is not None and version >= ended:
                continue
            # Files of older instants belong to archived commits, which were completed.
            begun = [at for at in bases if at <= version and (at in completed or at < first)]
            since = max(begun, default="")
            later = [each for each in logs if since < each[0] <= version and (each[0] in completed or each[0] < first)]
            if begun or later:
                yield Slice(folder, group, bases.get(since), tuple(path for _, _, path in sorted(later)))


def instant_of(base: Path) -> str:
    """The instant that wrote a base file."""
    found = _BASE.fullmatch(base.name)
    assert found
    return found["instant"]


def _groups(folder: Path) -> Mapping[str, tuple[dict[str, Path], list[tuple[str, int, Path]]]]:
    """The files in a partition: by file group the base files by instant, and the logs."""
    found: Mapping[str, tuple[dict[str, Path], list[tuple[str, int, Path]]]] = defaultdict(lambda: ({}, []))
    for path in folder.iterdir():
        if base := _BASE.fullmatch(path.name):
            found[base["group"]][0][base["instant"]] = path
        elif log := _LOG.fullmatch(path.name):
            found[log["group"]][1].append((log["instant"], int(log["number"]), path))
    return found
