"""What programs hold in memory: all processes of a command together, and the heap of a JVM by its log."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path

_EVERY_SECONDS = 1.0
_LEFT = re.compile(r"M->(\d+)M")


def run_and_watch(command: list[str], log: Path) -> float:
    """Run a command to its end; the most memory (MiB) that it and all that it started held at one time.

    It is resident memory; pages that processes share are counted once.

    Raises:
        RuntimeError: it failed; its log tells why.
    """
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as process:
        peak = 0.0
        while _is_running(process):
            peak = max(peak, _held_in(process.pid))
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed; see {log}")
    return peak


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process still runs after a moment."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EVERY_SECONDS)
    return process.returncode is None


def _held_in(session: int) -> float:
    """What the processes of a session hold now, in MiB. Python workers leave the group, but not the session."""
    processes = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    return sum(_share(each) for each in processes if _is_in(session, each))


def _is_in(session: int, process: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(process) == session
    return False


def _share(process: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def most_left(gc_log: Path) -> int:
    """The most heap (MiB) that a collection could not give back, by the log of ``-Xlog:gc``."""
    return max(map(int, _LEFT.findall(gc_log.read_text())), default=0)
