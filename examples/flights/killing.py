"""Kill a run (`kill -9`) in the middle of an epoch."""

from __future__ import annotations

import os
import signal
import subprocess
from time import sleep

_INTO_THE_NEXT_EPOCH = 0.7


def run_and_kill(command: list[str], *, when: str) -> None:
    """Start a run, print its output, and kill it and its JVM in the epoch after the first line that begins with `when`.

    Raises:
        RuntimeError: the run ended before it printed such a line.
    """
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as run:
        assert run.stdout
        for line in run.stdout:
            print(line, end="", flush=True)
            if line.startswith(when):
                break
        else:
            raise RuntimeError(f"the run ended before it printed a line that begins with {when!r}")
        sleep(_INTO_THE_NEXT_EPOCH)
        os.killpg(run.pid, signal.SIGKILL)
    print("Killed. Once more:", flush=True)
