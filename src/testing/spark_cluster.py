"""A standalone Spark cluster for tests: a master and workers, each in its own process, all on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen
from pyspark.find_spark_home import _find_spark_home

from ..adapters.spark.java import java_home
from ..domain.errors import ClusterUnavailable

_LOOPBACK = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
_ADDRESS = re.compile(r"Starting Spark master at (\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_ENVIRONMENT_OF_DRIVERS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_CONF_DIR")


@frozen(eq=False)
class _Daemon:
    """The process of a master or a worker.

    Args:
        process: the process.
        log: the file with its output.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, home: Path, program: str, *arguments: str, path: str = "") -> _Daemon:
        home.mkdir(parents=True, exist_ok=True)
        environ = {name: value for name, value in os.environ.items() if name not in _ENVIRONMENT_OF_DRIVERS}
        environ |= {"JAVA_HOME": java_home(), "SPARK_LOCAL_IP": _LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
        environ["PATH"] = path + environ["PATH"]
        spark_class = str(Path(spark_home(), "bin", "spark-class"))
        own = ("--host", _LOOPBACK, "--port", "0", "--webui-port", "0")
        log = home / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [spark_class, f"{_DEPLOY}.{program}", *own, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=environ,
            )
        return cls(process, log)

    def await_line(self, pattern: re.Pattern[str]) -> re.Match[str]:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := pattern.search(self.log.read_text()):
                return found
            time.sleep(0.1)
        self.stop()
        raise ClusterUnavailable(f"the Spark cluster did not start; the log ends:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


@define(eq=False)
class SparkCluster:
    """A master, to which workers can be added.

    Args:
        home: the folder in which each process has its own folder.
        master: the address of the master, ``spark://…``.
    """

    home: Path
    master: str
    _workers: dict[str, _Daemon] = field(init=False, factory=dict)

    def add_worker(self, name: str, python: Path | None = None, *, cores: int = 1, memory: str = "1g") -> None:
        """Start a worker and wait until it has registered with the master.

        Args:
            name: the name of the worker and of its folder.
            python: the root of a Python environment, which comes first on the worker's PATH; None for no change.
            cores: the number of cores that it offers.
            memory: the memory that it offers; an application takes 1 GiB of it unless it asks for another amount.
        """
        home = self.home / name
        path = f"{python / 'bin'}{os.pathsep}" if python else ""
        offers = ("--cores", str(cores), "--memory", memory, "--work-dir", str(home / "work"))
        self._workers[name] = worker = _Daemon.start(home, "worker.Worker", *offers, self.master, path=path)
        worker.await_line(_REGISTERED)

    def kill_worker(self, name: str) -> None:
        """Kill a worker (``kill -9``); its executors end when they notice that it is gone."""
        self._workers.pop(name).kill()

    def executors(self, name: str) -> int:
        """The number of executors that a worker has started so far."""
        return len(list((self.home / name / "work").glob("app-*/*")))

    def stop(self) -> None:
        while self._workers:
            self._workers.popitem()[1].stop()


def spark_home() -> str:
    """Spark's home folder; its programs are in ``bin``."""
    return str(_find_spark_home())  # type: ignore[no-untyped-call]


@contextmanager
def spark_cluster(home: Path) -> Iterator[SparkCluster]:
    """A running master without workers; the block's end stops it and all workers.

    Raises:
        ClusterUnavailable: it does not start; the message shows the end of its log.
    """
    master = _Daemon.start(home / "master", "master.Master")
    try:
        cluster = SparkCluster(home, master.await_line(_ADDRESS)[1])
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        master.stop()
