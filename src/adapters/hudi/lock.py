"""One writer at a time: a lock that a table's commits are made under, whatever process they come from.

Hudi's own optimistic control lets two writers succeed that touch different files, so it cannot fence. Here the newest
mark is looked at, leftovers of a dead writer are rolled back, and the commit is made, all under one lock.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.errors import StoreUnavailable
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .place import Folder


class Busy(StoreUnavailable):
    """Another writer has had a table's lock for long."""


COMMITS, UPKEEP = ".headwater-commits", ".headwater-upkeep"
"""What a table's lock is for: to make a commit, or to do upkeep."""

_SECONDS = 60.0
_POLL_SECONDS = 0.05
_EXPIRE_MINUTES = 60
_here: dict[str, threading.Lock] = {}


@contextmanager
def locked(folder: Folder, name: str = COMMITS) -> Iterator[None]:
    """Hold a table's lock; wait while another writer has it.

    Raises:
        Busy: another writer has it for long.
    """
    # Threads of this process are told apart here: to the system they are one, and one that closes the file unlocks it.
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
    """The system's lock on a file, which ends with the process that holds it, however that ends.

    Of the JVM, not of Python: it is the JVM that writes, and it may live on for a while when Python is killed.
    """
    place = Path(folder.local or "", name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"{folder.path} cannot be reached or written: {error}") from error
    file = java_class(folder.session, "java.io.RandomAccessFile")(str(place), "rw")
    try:
        _wait_for(file.getChannel().tryLock, folder)
        yield
    finally:
        file.close()


@contextmanager
def _storage_lock(folder: Folder, name: str) -> Iterator[None]:
    """Hudi's lock file on the table's own storage; that of a writer that died is broken after an hour."""
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
