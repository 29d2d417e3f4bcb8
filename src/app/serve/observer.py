"""What the pages and the API show of a deployment, as JSON values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field

from ...domain.epoch.epoch import Publication
from ...domain.source import dead_letter
from ..api import Headwater
from ..api.curve import read_curves
from ..api.pipeline import Answer
from ..api.status import StatusTable
from ..run.progress import show_time
from ..run.report import EpochReport
from ..services.kind import find_inputs

_REASONS, _SAMPLES = 20, 20
_REPORTS = 500
_T = TypeVar("_T")


@define(eq=False)
class Observer:
    """Reads a deployment for several threads, one at a time.

    Args:
        headwater: the deployment; nothing else uses it.
        fresh: for this time, in seconds, a status that was read is given again.
        run_error: why the run of this process has ended; None while it runs, and if there is none.
    """

    headwater: Headwater
    fresh: float = 1.0
    run_error: str | None = None
    _lock: Lock = field(init=False, factory=Lock)
    _status: tuple[float, StatusTable] | None = field(init=False, default=None)
    _health: tuple[float, StatusTable] | None = field(init=False, default=None)
    _reports: dict[str, deque[EpochReport]] = field(init=False, factory=dict)

    def take(self, report: EpochReport) -> None:
        """Remember the report of an epoch that this process has run."""
        kept = self._reports.setdefault(report.epoch.pipeline, deque(maxlen=_REPORTS))
        kept.append(report)

    def status_table(self) -> StatusTable:
        """The status of each pipeline, read at most `fresh` seconds ago."""
        with self._lock:
            if self._status is None or monotonic() - self._status[0] > self.fresh:
                self._status = (monotonic(), self.headwater.status())
            return self._status[1]

    def health(self) -> StatusTable:
        """The status of each pipeline without its lag, read at most `fresh` seconds ago."""
        with self._lock:
            if self._health is None or monotonic() - self._health[0] > self.fresh:
                self._health = (monotonic(), self.headwater.status(lag=False))
            return self._health[1]

    def status(self) -> dict[str, Any]:
        """The status of each pipeline, with the columns of ``headwater status``."""
        table, deployment = self.status_table(), self.headwater.deployment
        services = [each.service.kind for each in deployment.pipelines.values()]
        rows = [
            {**dict(zip(table.columns.names, row, strict=True)), "service": service}
            for row, service in zip(table.rows, services, strict=True)
        ]
        return {"time": show_time(datetime.now(UTC)), "backend": deployment.backend.name, "pipelines": rows}

    def graph(self) -> dict[str, Any]:
        """Sources, pipelines and sinks, and what flows between them."""
        deployment = self.headwater.deployment
        nodes: list[dict[str, Any]] = [
            {"id": f"source:{name}", "kind": "source", "label": name} for name in deployment.sources
        ]
        edges = []
        for name, pipeline in deployment.pipelines.items():
            views = [view.name for view in self.headwater.services[name].views]
            about = {"kind": "pipeline", "label": name, "service": pipeline.service.kind, "views": views}
            nodes.append({"id": f"pipeline:{name}", **about})
            read = [f"source:{source}" for source in dict.fromkeys(pipeline.sources)]
            read += [f"pipeline:{each}" for each in find_inputs(pipeline)]
            edges += [{"from": each, "to": f"pipeline:{name}"} for each in dict.fromkeys(read)]
            if pipeline.publish:
                sink = f"sink:{name}"
                nodes.append({"id": sink, "kind": "sink", "label": pipeline.publish.topic})
                edges.append({"from": f"pipeline:{name}", "to": sink})
        return {"nodes": nodes, "edges": edges}

    def epochs(self, pipeline: str, count: int) -> list[dict[str, Any]]:
        """The newest epochs of a pipeline, oldest first; with the seconds of each phase if this process ran them."""
        with self._lock:
            found = self.headwater.pipeline(pipeline).ledger.known(count + 1)
        phases = {report.epoch.number: report.seconds for report in self._reports.get(pipeline, ())}
        return list(_epochs(found[::-1], phases))[-count:]

    def versions(self, pipeline: str, count: int) -> list[dict[str, Any]]:
        """The newest publications of a pipeline, with what holds them."""
        with self._lock:
            found = list(islice(self.headwater.upkeep(pipeline).versions(), count))
            label = self.headwater.services[pipeline].label
            return [
                {
                    "epoch": each.publication.epoch.number,
                    "label": None if (named := label(each.publication)) is None else str(named),
                    "published": show_time(each.publication.published_at),
                    "superseded": show_time(each.superseded_at),
                    "readable": each.readable,
                    "leases": list(each.leases),
                }
                for each in found
            ]

    def dead_letters(self, pipeline: str) -> dict[str, Any]:
        """The reasons of a pipeline's dead letters with their numbers, and the newest ones."""
        name = dead_letter.table(pipeline)
        self.headwater.find(pipeline)
        if name not in {table.name for table in self.headwater.services[pipeline].tables}:
            return {"reasons": [], "columns": [], "rows": []}

        def read(answer: Answer) -> dict[str, Any]:
            reasons = dead_letter.reasons(answer.frame, _REASONS)
            newest = answer.frame.sort("epoch", "position", descending=True).head(_SAMPLES)
            return {
                "reasons": [{"reason": reason, "count": count} for reason, count in reasons],
                **_rows(answer, newest),
            }

        return self._read(name, read)

    def view(self, name: str, *, at: str | None, as_of: str | None, limit: int) -> dict[str, Any]:
        """The first rows of a view in its display order; values are those of ``headwater show --format jsonl``."""

        def read(answer: Answer) -> dict[str, Any]:
            return _rows(answer, answer.ordered.head(limit))

        return self._read(name, read, at=at, as_of=as_of)

    def curve(self, name: str, *, measure: str | None, groups: int) -> dict[str, Any]:
        """The highest curves of cumulate windows."""
        with self._lock:
            found = read_curves(self.headwater, name, measure=measure, groups=groups)
        steps = [show_time(step) for step in found.steps]
        return {
            "title": found.title,
            "measure": found.measure,
            "zone": found.zone,
            "steps": steps,
            "lines": found.lines,
        }

    def _read(self, name: str, read: Callable[[Answer], _T], **how: Any) -> _T:
        with self._lock:
            answer = self.headwater.answer(name, **how)
            with answer.engine.working():
                return read(answer)


def _rows(answer: Answer, frame: Any) -> dict[str, Any]:
    from ...adapters.records.json_rows import json_rows

    return {
        "columns": list(answer.view.schema.names),
        "rows": list(json_rows(frame, answer.view.schema, answer.engine)),
    }


def _epochs(found: list[Publication], phases: Mapping[int, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """What each epoch has read; the rows of the first one are known only if it is the first of all."""
    before: Publication | None = None
    for each in found:
        seconds = (each.published_at - each.began_at).total_seconds() if each.began_at else None
        known = before is not None or each.epoch.number == 0
        tally, former = each.tally, before.tally if before else None
        rows = tally.rows - (former.rows if former else 0) if tally and known else None
        letters = tally.dead_letters - (former.dead_letters if former else 0) if tally and known else None
        yield {
            "epoch": each.epoch.number,
            "began": show_time(each.began_at),
            "published": show_time(each.published_at),
            "watermark": show_time(each.watermark),
            "seconds": seconds,
            "rows": rows,
            "dead_letters": letters,
            "phases": dict(phases.get(each.epoch.number, {})),
        }
        before = each
