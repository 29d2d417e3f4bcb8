"""The lock of a table: commits are made under it, so that there is one writer at a time in all processes.

Hudi's own optimistic control lets two writers of different files both succeed, so it cannot fence. Under this lock a
writer checks the newest mark, rolls back the unfinished commits of dead writers, and commits.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...domain.errors import StoreUnavailable
from ..spark.jvm import java_class
from .path import Folder


class Busy(StoreUnavailable):
    """Another writer has held a table's lock for too long."""


COMMITS, UPKEEP = ".headwater-commits", ".headwater-upkeep"
"""The names of a table's two locks: one for commits, one for upkeep."""

_SECONDS = 60.0
_POLL_SECONDS = 0.05
_EXPIRE_MINUTES = 60
_here: dict[str, threading.Lock] = {}


@contextmanager
def locked(folder: Folder, name: str = COMMITS) -> Iterator[None]:
    """Hold a table's lock; wait while another writer holds it.

    Raises:
        Busy: another writer has held it for too long.
    """
    # The file lock is one per process, and any thread that closes the file releases it; so threads need their own lock.
    mine = _here.setdefault(f"{folder.path}/{name}", threading.Lock())
    if not mine.acquire(timeout=_SECONDS):
        raise _busy(folder)
    try:
        with _file_lock(folder, name) if folder.local is not None else _storage_lock(folder, name):
            yield
    finally:
        mine.release()


@contextmanager
def _file_lock(folder: Folder, name: str) -> Iterator[None]:
    """Locks of the operating system on two files, which end with the processes that hold them.

    The JVM takes one, and this process the other: both write, and either may live on for a while after the other.
    """
    place = Path(folder.local or "", name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{folder.path} cannot be reached or written: {error}") from error
    file = java_class(folder.session, "java.io.RandomAccessFile")(str(place), "rw")
    try:
        _wait_for(file.getChannel().tryLock, folder)
        with place.with_name(f"{name}-python").open("wb") as mine:
            _wait_for(lambda: _try_lock(mine.fileno()), folder)
            yield
    finally:
        file.close()


def _try_lock(file: int) -> bool | None:
    """Lock an open file until it is closed; None if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return True


@contextmanager
def _storage_lock(folder: Folder, name: str) -> Iterator[None]:
    """Hudi's lock file on the table's storage; the lock of a dead writer is broken after an hour."""
    settings = java_class(folder.session, "java.util.Properties")()
    settings.setProperty("hoodie.write.lock.filesystem.path", f"{folder.path}/{name}")
    settings.setProperty("hoodie.write.lock.filesystem.expire", str(_EXPIRE_MINUTES))
    configured = java_class(folder.session, "org.apache.hudi.common.config.LockConfiguration")(settings)
    provider = java_class(folder.session, "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider")
    lock = provider(configured, folder.storage)
    second = java_class(folder.session, "java.util.concurrent.TimeUnit").SECONDS
    try:
        _wait_for(lambda: lock.tryLock(1, second) or None, folder)
        yield
    finally:
        lock.close()


def _wait_for(acquire: Callable[[], Any], folder: Folder) -> None:
    until = time.monotonic() + _SECONDS
    while acquire() is None:
        if time.monotonic() > until:
            raise _busy(folder)
        time.sleep(_POLL_SECONDS)


def _busy(folder: Folder) -> Busy:
    return Busy(
        f"another writer has been at work on {folder.path} for {_SECONDS:.0f} s; try again later, or stop one of them"
    )
