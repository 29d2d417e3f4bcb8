"""Rank flights on a Spark cluster, by `headwater run` and by spark-submit, and kill a worker each time.

python -m examples.flights.cluster [--backend delta|hudi-mor|hudi-cow] [--year]

The cluster is a standalone master and two workers on this machine. Each worker has its own folder and its own Python
environment, in which only `WORKER_PACKAGES` are installed: not Headwater, and not PySpark.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import polars as pl
from attrs import frozen

from headwater import __main__ as command_line
from headwater.adapters.delta import package as delta
from headwater.adapters.hudi import package as hudi
from headwater.adapters.spark.workers import WORKER_PACKAGES
from headwater.testing.spark_cluster import SparkCluster, spark_cluster, spark_home

from .demo import CONFIG, PIPELINE, ROOT, compare
from .prepare import FILES, write

if TYPE_CHECKING:
    from typing import IO

_HOME = ROOT / "cluster"
_MONTH_ROWS, _MONTH_FILES = 27_000, 12
_WORKERS = ("worker-1", "worker-2")
_INTO_THE_NEXT_EPOCH = 0.7
_SHOW = ("--until-idle", "--show", f"{PIPELINE}.ranks", "--format", "jsonl")


def main() -> int:
    """Run the demo; return 0 if every rank is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="delta (default), hudi-mor or hudi-cow")
    parser.add_argument("--year", action="store_true", help="all flights of 2013, not only January's")
    options = parser.parse_args()
    landings = ROOT / "landings" if options.year else _HOME / "january"
    print("Fetching and sorting the flights …", flush=True)
    write(landings) if options.year else write(landings, rows=_MONTH_ROWS, files=_MONTH_FILES)
    pythons = {name: _python(name) for name in _WORKERS}
    for name in (*_WORKERS, "master"):
        shutil.rmtree(_HOME / name, ignore_errors=True)
    middle = (FILES if options.year else _MONTH_FILES) // 2
    with spark_cluster(_HOME) as cluster:
        for name, python in pythons.items():
            cluster.add_worker(name, python)
        print(f"A master at {cluster.master}, and two workers of one core each.", flush=True)
        plain = _Run("headwater run", _plain(cluster.master), options.backend, landings)
        wrong = plain.finish(cluster, kill=_WORKERS[0], after=middle)
        cluster.add_worker(_WORKERS[0], pythons[_WORKERS[0]])
        submitted = _Run("spark-submit", _submitted(cluster.master, options.backend), options.backend, landings)
        return submitted.finish(cluster, kill=_WORKERS[1], after=middle) | wrong


def _python(worker: str) -> Path:
    """The Python environment of a worker; made by the first call."""
    home = _HOME / "pythons" / worker
    if not (home / "made").exists():
        print(f"Making the Python environment of {worker}: {', '.join(WORKER_PACKAGES)} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
        subprocess.run([*pip, *WORKER_PACKAGES], check=True)
        (home / "made").touch()
    return home


def _plain(master: str) -> list[str]:
    """`headwater run`, with the master in its configuration."""
    config = _HOME / "plain.toml"
    head = "[backend.spark]\n"
    config.write_text(CONFIG.read_text("utf-8").replace(head, f'{head}"spark.master" = "{master}"\n'), "utf-8")
    return [sys.executable, "-m", "headwater", "run", str(config), *_SHOW]


def _submitted(master: str, backend: str) -> list[str]:
    """The same command by spark-submit, whose options name master and packages; the configuration names neither."""
    packages = (delta if backend == "delta" else hudi).PACKAGES
    submit = [str(Path(spark_home(), "bin", "spark-submit")), "--master", master, "--driver-memory", "2g"]
    return [*submit, "--packages", ",".join(packages), str(command_line.__file__), "run", str(CONFIG), *_SHOW]


@frozen
class _Run:
    """A run from empty tables until all files are ranked.

    Args:
        name: its name in the output.
        command: the command line; it prints the ranks at the end.
        backend: the name of the backend.
        landings: the folder of the input files.
    """

    name: str
    command: list[str]
    backend: str
    landings: Path

    def finish(self, cluster: SparkCluster, *, kill: str, after: int) -> int:
        """Run the command, kill worker `kill` in the epoch after number `after`, and compare the ranks.

        Returns 0 if every rank is right.
        """
        print(f"\n{self.name}:", flush=True)
        shutil.rmtree(_HOME / "lake", ignore_errors=True)
        began = perf_counter()
        last: deque[str] = deque(maxlen=30)
        # spark-submit writes to standard output what the program and the JVM write to standard error, and Ivy's report.
        with subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self._environ()
        ) as run:
            assert run.stdout
            shown = _follow(run.stdout, last, cluster, kill, f"{PIPELINE} epoch {after}:")
        if run.returncode:
            print(*last, sep="", flush=True)
            return run.returncode
        ran = ", ".join(f"{cluster.executors(name)} on {name}" for name in _WORKERS)
        print(f"{self.name} took {perf_counter() - began:.0f} s on {self.backend}; executors so far: {ran}.")
        return compare(pl.read_ndjson(io.StringIO("".join(shown))), self.landings)

    def _environ(self) -> dict[str, str]:
        chosen = {
            "HEADWATER_BACKEND__NAME": self.backend,
            "HEADWATER_BACKEND__PATH": str(_HOME / "lake"),
            "HEADWATER_SOURCES__LANDINGS__PATH": str(self.landings),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        return inherited | chosen


def _follow(lines: IO[str], last: deque[str], cluster: SparkCluster, kill: str, when: str) -> list[str]:
    """Print a run's lines about epochs and errors; kill a worker in the middle of an epoch; return the view's rows."""
    shown = []
    for line in lines:
        if line.startswith("{"):
            shown.append(line)
            continue
        last.append(line)
        if line.startswith((PIPELINE, "headwater", "backend")):
            print(line, end="", flush=True)
        if line.startswith(when):
            sleep(_INTO_THE_NEXT_EPOCH)
            cluster.kill_worker(kill)
            print(f"Killed {kill}.", flush=True)
    return shown


if __name__ == "__main__":
    sys.exit(main())
