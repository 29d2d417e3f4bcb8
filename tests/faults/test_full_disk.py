"""Tables on a full disk: they stay as they were, and the run continues when there is space again."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from headwater.domain.errors import StoreUnavailable

from .broken import Broken, on_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_ROOM = "8m"
_KIBIBYTE = 1024


def system(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}: {done.stderr.strip()} (a small disk is made here: run the tests as root)")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk where the tables are to lie."""
    place = tmp_path / "tables"
    place.mkdir()
    system("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "tmpfs", str(place))
    try:
        yield place
    finally:
        # The JVM may hold on to a file that it could not write.
        system("umount", "--lazy", str(place))


@contextmanager
def filled(disk: Path, *, leaving: int) -> Iterator[None]:
    """The disk, with no more room than so many bytes."""
    filler = disk / "_filler"
    room = os.statvfs(disk)
    with filler.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, room.f_bavail * room.f_frsize - leaving)
    try:
        yield
    finally:
        filler.unlink()


@on_files
@pytest.mark.faults("the disk is full")
def test_a_full_disk(
    disk: Path, backend: str, tmp_path: Path, session: SparkSession | None, survived: Callable[[str], None]
) -> None:
    with ExitStack() as exits:
        broken = Broken.deployed(tmp_path, backend, exits, session)
        broken.trial.set("run.retries", "0")
        broken.runs(0, 1)
        broken.feed(2)
        with filled(disk, leaving=0):
            told = r"ranked[./]ranked.*: No space left on device.*; look at the disk and its free space"
            with pytest.raises(StoreUnavailable, match=told):
                broken.run()
            assert broken.answer() == broken.expected([0, 1])
        with filled(disk, leaving=24 * _KIBIBYTE), suppress(StoreUnavailable):  # full in the middle of a commit, or not
            broken.run()
        broken.run()
        broken.check()
    survived("refused: `StoreUnavailable`; continues when there is room")
