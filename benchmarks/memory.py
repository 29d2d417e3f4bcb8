"""What programs hold in memory: a process group at its peak, and the heap of a Spark session after a collection."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

_EVERY_SECONDS = 0.5


def run_and_watch(command: list[str], log: Path) -> float:
    """Run a command to its end; the most memory (MiB) that it and all its processes held at one time.

    Pages that processes share are counted once.

    Raises:
        RuntimeError: it failed; its log tells why.
    """
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as process:
        peak = 0.0
        while _is_running(process):
            peak = max(peak, _held_by(process.pid))
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed; see {log}")
    return peak


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process still runs after a moment."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EVERY_SECONDS)
    return process.returncode is None


def _held_by(group: int) -> float:
    """What a process group holds now, in MiB."""
    return sum(_share(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit() and _in(each, group))


def _in(process: Path, group: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getpgid(int(process.name)) == group
    return False


def _share(process: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def live_heap(session: Any) -> float:
    """What a session's JVM has to keep: its heap (MiB) after a full collection."""
    jvm = session.sparkContext._jvm  # noqa: SLF001
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20
