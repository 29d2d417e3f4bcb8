"""One writer at a time: a lock that a table's commits are made under, whatever process they come from.

Hudi's own optimistic control lets two writers succeed that touch different files, so it cannot fence. Here the newest
mark is looked at, leftovers of a dead writer are rolled back, and the commit is made, all under one lock.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.errors import StoreUnavailable
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from .place import Folder

_SECONDS = 60.0
_POLL_SECONDS = 0.05
_EXPIRE_MINUTES = 60

COMMITS, UPKEEP = ".headwater-commits", ".headwater-upkeep"
"""What a table's lock is for: to make a commit, or to do upkeep."""


@contextmanager
def locked(folder: Folder, name: str = COMMITS) -> Iterator[None]:
    """Hold a table's lock; wait while another writer has it.

    Raises:
        StoreUnavailable: another writer has it for long.
    """
    local = folder.local
    with _file_lock(Path(local), name) if local is not None else _storage_lock(folder, name):
        yield


@contextmanager
def _file_lock(folder: Path, name: str) -> Iterator[None]:
    """The system's lock on a file, which ends with the process that holds it, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as file:
        _acquire(file, folder)
        yield


def _acquire(file: BinaryIO, folder: Path) -> None:
    until = time.monotonic() + _SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise StoreUnavailable(_busy(str(folder))) from error
            time.sleep(_POLL_SECONDS)
        else:
            return


@contextmanager
def _storage_lock(folder: Folder, name: str) -> Iterator[None]:
    """Hudi's lock file on the table's own storage; that of a writer that died is broken after an hour."""
    hudi = java_class(folder.session, "org.apache.hudi.common.config.LockConfiguration")
    settings = java_class(folder.session, "java.util.Properties")()
    settings.setProperty("hoodie.write.lock.filesystem.path", f"{folder.path}/{name}")
    settings.setProperty("hoodie.write.lock.filesystem.expire", str(_EXPIRE_MINUTES))
    provider = java_class(folder.session, "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider")(
        hudi(settings), folder.storage
    )
    until = time.monotonic() + _SECONDS
    try:
        while not provider.tryLock(1, java_class(folder.session, "java.util.concurrent.TimeUnit").SECONDS):
            if time.monotonic() > until:
                raise StoreUnavailable(_busy(folder.path))
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        provider.close()


def _busy(path: str) -> str:
    return f"another writer has been at work on {path} for {_SECONDS:.0f} s; try again later, or stop one of them"
