"""A pytest plugin: how long each test took, written to a file: ``--durations-file FILE``, the slowest first."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", type=Path, metavar="FILE", help="write how long each test took, slowest first")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With several processes, only the one that reports has all durations."""
    file: Path | None = config.getoption("--durations-file")
    if file is None:
        return
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    lines = [f"{each:8.2f} s  {test}\n" for test, each in sorted(seconds.items(), key=lambda item: -item[1])]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join([f"{sum(seconds.values()):8.2f} s  all\n", *lines]), encoding="utf-8")
