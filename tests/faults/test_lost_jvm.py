"""`kill -9` of Spark's JVM, as by the kernel when memory runs out: one message, and the next run continues."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .contracts import drop
from .deployments import write

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import os, signal, sys, threading
from contextlib import nullcontext

from pyspark import SparkContext

from headwater import Headwater
from headwater.app.cli import main as cli
from headwater.domain.errors import EngineLost


def kill(report):
    print("killed after epoch", report.epoch.number, flush=True)
    process = SparkContext._gateway.proc
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def kill_at_work(report):
    print("killed after epoch", report.epoch.number, flush=True)
    pid, jvm = SparkContext._gateway.proc.pid, SparkContext._jvm
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    jvm.java.lang.Thread.sleep(60_000)  # a call that waits for its answer


config = sys.argv[1]
try:
    with Headwater.from_config(config, report=kill) as headwater:
        headwater.run(until_idle=True)
except EngineLost as error:
    print("lost:", error, flush=True)
cli.choose_bars = lambda backlog: (kill_at_work, nullcontext())
print("exit code", cli.main(["run", config, "--until-idle"]), flush=True)
with Headwater.from_config(config, report=lambda _report: None) as headwater:
    headwater.run(until_idle=True)
    print("epoch", headwater.epoch("ranked"), "with", headwater.view("ranked").count(), "rows", flush=True)
"""
FILES = 3


@pytest.mark.delta
@pytest.mark.slow
@pytest.mark.faults("kill -9 of Spark's JVM alone", backend="delta")
def test_the_jvm_is_killed_and_the_next_one_continues(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "deploy.toml", 'kind = "files"\npath = "in"\nfiles_per_epoch = 1\n', "delta")
    drop(tmp_path / "in", *range(FILES))
    line = [sys.executable, "-c", PROGRAM, str(tmp_path / "deploy.toml")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    first, lost, second, code, end = done.stdout.splitlines()
    assert (first, second) == ("killed after epoch 0", "killed after epoch 1")
    assert lost.startswith("lost: Spark's JVM has ended")
    assert code == "exit code 1"
    assert end.startswith("epoch 2 with ")
    assert "pipelines.ranked: Spark's JVM has ended: it was killed, or it crashed" in done.stderr
    assert "Traceback" not in done.stderr
