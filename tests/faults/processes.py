"""Runs of Headwater in processes of their own, which can be killed at a chosen moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PATIENCE = 180.0


@define(eq=False)
class Running:
    """A run that goes on until it is killed; what it says is kept."""

    process: subprocess.Popen[str]
    said: list[str] = field(factory=list)

    @property
    def epochs(self) -> int:
        """How many epochs it has told of."""
        return sum(" epoch " in line for line in self.said)

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Look again and again, until something holds."""
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            assert self.process.poll() is None, "the run has ended:\n" + "".join(self.said)
            assert time.monotonic() < deadline, "not reached in time:\n" + "".join(self.said)
            time.sleep(0.002)

    def kill_when(self, reached: Callable[[], bool]) -> None:
        """Kill Python and the JVM while something holds: they are frozen first, so that it still does."""
        while True:
            self.wait_until(reached)
            os.killpg(self.process.pid, signal.SIGSTOP)
            if reached():
                break
            os.killpg(self.process.pid, signal.SIGCONT)
        self.kill()

    def kill(self) -> None:
        """End Python and the JVM at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def listen(self) -> None:
        """Keep what it says on standard error."""
        assert self.process.stderr
        self.said.extend(iter(self.process.stderr.readline, ""))


@contextmanager
def running(config: Path, *arguments: str, command: str = "run", **settings: str) -> Iterator[Running]:
    """A run until killed, in a process group of its own, so that its JVM dies with it; see `unhurried`.

    Args:
        config: the deployment.
        arguments: of the command line, behind the deployment.
        command: what runs.
        settings: overrides by environment.
    """
    line = [sys.executable, "-m", "tests.faults.unhurried", command, str(config), *arguments]
    with subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | settings
    ) as process:
        run = Running(process)
        listener = threading.Thread(target=run.listen)
        listener.start()
        try:
            yield run
        finally:
            if process.poll() is None:
                run.kill()
            listener.join()


def headwater(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself.

    Args:
        arguments: of the command line.
        settings: overrides by environment.
    """
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_PATIENCE, env=os.environ | settings
    )
