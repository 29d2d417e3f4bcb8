"""Resources of a command: memory and processor time of all its processes together, and the heap of a JVM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from attrs import frozen

_EVERY_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_LEFT = re.compile(r"M->(\d+)M")


@frozen
class Used:
    """The resources of a command and all processes that it started.

    Args:
        peak: the largest resident memory in MiB at one time; pages that processes share are counted once.
        cpu: seconds of processor time, as of the last sample of each process.
    """

    peak: float
    cpu: float


def run_and_watch(command: list[str], log: Path) -> Used:
    """Run a command to its end; return the resources that it used.

    Raises:
        RuntimeError: the command failed; its log shows why.
    """
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as process:
        peak, cpu = 0.0, dict[int, float]()
        try:
            while _is_running(process):
                there = _processes_of(process.pid)
                peak = max(peak, sum(map(_share, there)))
                cpu |= {each: _cpu(each) or cpu.get(each, 0.0) for each in there}
        finally:  # interrupting the measurement stops the command
            for each in _processes_of(process.pid) if process.returncode is None else ():
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGTERM)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed; see {log}")
    return Used(peak, sum(cpu.values()))


def cpu_of_session() -> float:
    """Seconds of processor time of this process's session: this process and those that it started and that run."""
    return sum(map(_cpu, _processes_of(os.getsid(0))))


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a moment; return whether the process still runs."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EVERY_SECONDS)
    return process.returncode is None


def _processes_of(session: int) -> list[int]:
    """The running processes of a session. Python workers leave the process group, but not the session."""
    processes = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
    return [each for each in processes if _is_in(session, each)]


def _is_in(session: int, process: int) -> bool:
    with suppress(ProcessLookupError):
        return os.getsid(process) == session
    return False


def _share(process: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended in the meantime
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _cpu(process: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended in the meantime
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:13])) / _TICKS
    return 0.0


def most_left(gc_log: Path) -> int:
    """The largest heap in MiB after a garbage collection, from the log of ``-Xlog:gc``; 0 without a JVM."""
    if not gc_log.exists():
        return 0
    return max(map(int, _LEFT.findall(gc_log.read_text())), default=0)
