"""Progress bars on a terminal, below the progress lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..run.report import EpochReport

_WAITING = re.compile(r"(\d+) (?:file|record|row)s?\b")
_BULK = ", bulk: "


class Bars:
    """A bar for each input that is being caught up with; it ends with its input.

    Args:
        backlog: whether to show every input; else only tables that are loaded in bulk.
    """

    def __init__(self, *, backlog: bool) -> None:
        self._backlog = backlog
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # What is printed meanwhile on standard error appears above the bars; standard output is for other programs.
        self._shown = Progress(*columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False)
        self._tasks: dict[str, TaskID] = {}

    def below(self, report: Callable[[EpochReport], None]) -> Callable[[EpochReport], None]:
        """What shows the bars too, after another report of an epoch."""

        def both(each: EpochReport) -> None:
            report(each)
            self.take(each)

        return both

    def take(self, report: EpochReport) -> None:
        """Show how much an epoch has left."""
        stream, _, bulk = report.lag.partition(_BULK)
        pipeline = report.epoch.pipeline
        if self._backlog:
            self._show(pipeline, stream)
        self._show(f"{pipeline}: bulk", bulk)
        if not self._tasks:
            self._shown.stop()

    def _show(self, name: str, lag: str) -> None:
        waiting = sum(map(int, _WAITING.findall(lag)))
        if not waiting:
            if name in self._tasks:
                self._shown.remove_task(self._tasks.pop(name))
            return
        if name not in self._tasks:
            self._tasks[name] = self._shown.add_task(name, total=waiting)
            self._shown.start()
        task = next(each for each in self._shown.tasks if each.id == self._tasks[name])
        total = max(task.total or 0, task.completed + waiting)
        self._shown.update(task.id, total=total, completed=total - waiting, refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._shown.stop()
