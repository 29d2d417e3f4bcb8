"""Servers that tests start on this machine, and stop."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
_ON_PARENTS_DEATH = 1


@contextmanager
def running(command: list[str], user: str | None, port: int, log: BinaryIO, stop: signal.Signals) -> Iterator[None]:
    """A server that listens on a port; it is stopped in the end."""
    # Tests that are killed must not leave it behind.
    server = subprocess.Popen(
        command,
        user=user,
        cwd=Path(log.name).parent,
        stdout=log,
        stderr=log,
        preexec_fn=_end_with_us,  # noqa: PLW1509 - it takes no lock
    )
    try:
        _wait_for(port, server, Path(log.name))
        yield
    finally:
        server.send_signal(stop)
        server.wait(STOP_SECONDS)
        log.close()


def _end_with_us() -> None:
    """Let Linux stop this process when its parent is gone."""
    ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGINT)


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as asking:
            if asking.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
