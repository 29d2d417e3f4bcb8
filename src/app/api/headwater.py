"""The Python API: runs pipelines and reads their views as the engine's own DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import partial
from os import PathLike
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, Unpack

from ...domain.epoch.epoch import Offsets, Publication
from ...domain.errors import ConfigError, LeaseNotFound
from ...domain.ledger.upkeep import Pin, Upkeep
from ...domain.ports import Now
from ...domain.service.base import Service
from ...domain.service.history_load import HistorySource
from ..config import Deployment, load, load_tables, load_text
from ..document.plain import check_type
from ..read.find_view import find_pipelines, find_readers, find_service
from ..read.latency import Latencies
from ..read.moments import Duration, Moment, read_duration
from ..read.status import PipelineStatus
from ..registry.backends import chosen_backend
from ..run.alerts import log_alarms, send_alerts
from ..run.beside import work_beside
from ..run.bootstrap import FILES_PER_CHUNK, Bootstrap, HistoryTable, stream_offsets
from ..run.clock import SystemClock
from ..run.keep_up import compact_or_log
from ..run.move import move
from ..run.progress import log_progress
from ..run.rebuild import Rebuild, Rebuilt
from ..run.replay import ReplayResult
from ..run.report import EpochReport
from ..run.rounds import run_all
from ..run.runner import Runner
from ..run.telemetry import Telemetry
from ..services.kind import describe, find_inputs
from ..wiring.blueprints import blueprints
from ..wiring.container import Container
from ..wiring.digest import digest_rebuild
from .declarations import Declarations
from .draft import Draft
from .html import html_table
from .pipeline import Pipeline
from .pipeline_status import statuses_of
from .push import Pushes
from .reader import ViewReader
from .status import StatusTable

if TYPE_CHECKING:
    from .options import AlertOptions, BackendOptions, RunOptions, TelemetryOptions


class Headwater(Declarations, ViewReader):
    """A deployment: runs its pipelines and reads their views. Close it, or use it as a context manager.

    A program declares its sources and pipelines by the methods of `Declarations`, or reads them from a file
    (`from_config`), a text or a dict.

    Args:
        deployment: backend, sources and pipelines; None if the program declares them.
        backend: its name, if the program declares them: delta, hudi-mor, hudi-cow, or memory (default without `path`).
        path: the folder of its tables; relative paths start from the current folder.
        run: settings of runs.
        alerts: where a run sends what an operator should know.
        telemetry: where traces and metrics go.
        environ: environment variables that override settings; those of the process if not set.
        report: called with each published epoch, but not by a rebuild; by default it logs a line at level INFO.
        more: other settings of the backend.

    Raises:
        ConfigError: a service refuses its settings; nothing has been started.
    """

    def __init__(
        self,
        deployment: Deployment | None = None,
        *,
        backend: str | None = None,
        path: str | PathLike[str] | None = None,
        run: RunOptions | None = None,
        alerts: AlertOptions | None = None,
        telemetry: TelemetryOptions | None = None,
        environ: Mapping[str, str] | None = None,
        report: Callable[[EpochReport], None] = log_progress,
        **more: Unpack[BackendOptions],
    ) -> None:
        self._draft: Draft | None = None
        if deployment is None:
            own = {"name": "memory" if backend is None and path is None else backend, "path": path, **more}
            tables = {"backend": own, "run": run or {}, "alerts": alerts or {}, "telemetry": telemetry or {}}
            self._draft = Draft(tables, environ)
            deployment = self._draft.deployment()
        elif backend is not None or path is not None or environ is not None or run or alerts or telemetry or more:
            raise ConfigError("a deployment has its own settings of the backend and of runs: give no others beside it")
        self.deployment = check_type(deployment, Deployment, "a Deployment; from_config reads a file, from_text a text")
        self.services: Mapping[str, Service] = blueprints(deployment)
        self._report = check_type(report, Callable, "a function that takes a report")  # type: ignore[arg-type]
        self._clock = SystemClock()
        self._container = Container(deployment, self._clock)
        engine = chosen_backend(deployment.backend).engine_name or deployment.backend.name
        self._telemetry = Telemetry(deployment.telemetry, engine, partial(self._status, lag=False))
        self._runners: dict[str, Runner] = {}
        self._making, self._pushes = RLock(), Pushes()
        self._load: Bootstrap | None = None
        self._stopped = self._ended = self._closed = False

    @classmethod
    def from_config(
        cls,
        path: str | PathLike[str],
        *,
        environ: Mapping[str, str] | None = None,
        report: Callable[[EpochReport], None] = log_progress,
    ) -> Self:
        """Read a deployment from its TOML file.

        Args:
            path: the file; relative paths in it start from its folder.
            environ: environment variables that override it; those of the process if not set.
            report: see `Headwater`.

        Raises:
            ConfigError: names file, line and key of the first mistake, and what is allowed.
        """
        return cls(load(path, environ), report=report)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        environ: Mapping[str, str] | None = None,
        report: Callable[[EpochReport], None] = log_progress,
    ) -> Self:
        """Read a deployment from the text of a TOML file; relative paths start from the current folder."""
        return cls(load_text(text, environ), report=report)

    @classmethod
    def from_dict(
        cls,
        tables: Mapping[str, Any],
        *,
        environ: Mapping[str, str] | None = None,
        report: Callable[[EpochReport], None] = log_progress,
    ) -> Self:
        """Read a deployment from the tables of a file as a dict; relative paths start from the current folder."""
        return cls(load_tables(tables, environ), report=report)

    @property
    def chooses_engine(self) -> bool:
        """Whether an engine is chosen for each epoch (``engine = "auto"``); reports and `status` then name it."""
        return self._container.chooses

    def pipeline(self, name: str) -> Pipeline:
        """Return a handle on one pipeline; `ConfigError` is raised if there is none of that name."""
        return Pipeline(self._runner(name), lambda: self._container.base, self._pushes.push_to)

    def run(self, pipelines: Iterable[str] | None = None, *, until_idle: bool = False) -> None:
        """Run pipelines, by default all of them, until `stop` or (with `until_idle`) until their sources are drained.

        Where the backend can, upkeep is done and views are published beside the epochs; all of it has ended when this
        returns.

        Raises:
            HeadwaterError: a permanent fault, or a transient one that outlasted the retries. Nothing is lost: the next
                run resumes from the newest publication.
        """
        if self._ended:
            raise ConfigError("this Headwater was asked to stop, and its run has ended; open another one to run on")
        runners = self.start(pipelines)
        with send_alerts(self.deployment.alerts, runners) as look, work_beside(runners):
            run_all(runners, until_idle=until_idle, after_round=(look, self._telemetry.look))
        if until_idle and not self._stopped:
            log_alarms(runners)  # to the log only: alarms are alerts of their own
        self._telemetry.look(now=True)
        self._ended = self._stopped

    def start(self, pipelines: Iterable[str] | None = None) -> list[Runner]:
        """Start the engine and create the runners of these pipelines; `run` calls this itself."""
        return list(map(self._runner, find_pipelines(self.deployment.pipelines, pipelines)))

    def foreach_batch(self, pipeline: str) -> Callable[[Any, int], None]:
        """See `Pipeline.foreach_batch`."""
        return self.pipeline(pipeline).foreach_batch()

    def push(self, source: str, frame: Any, *, number: int | None = None) -> bool:
        """Make a frame the next epoch of each pipeline that reads a source of kind ``stream``.

        Args:
            source: its name.
            frame: the rows: a frame of Polars, pandas, PyArrow or Spark with the declared columns. Types are widened;
                a type that could lose values is refused.
            number: of this frame, from 0 to 2**63 - 1, and greater than that of the frame before; the next if not set.
                Give it if the push may be repeated after a crash: a pipeline skips a number up to its newest one.

        Returns:
            True if this call has published an epoch of a pipeline; False if all had this number, or a greater one.

        Raises:
            ConfigError: there is no such source, no pipeline reads it, or it is of another kind; or no `number` is set,
                and it is unknown whether the frame is the repeat of one that is published.
            EpochConflict: another program pushes to the source; see the note of the error.
            BadInput: a declared column is missing, or its type could lose values.
            HeadwaterError: an epoch failed. Push the frame again, with the same number; see the note of the error.
        """
        readers = [self.pipeline(name) for name in find_readers(self.deployment, source)]
        with self._container.turn:
            published = self._pushes.push(source, readers, frame, number)
        self._telemetry.look()
        return published

    def stop(self) -> None:
        """Ask the run to end after the current epoch, for good: later runs are refused; safe in a signal handler."""
        self._stopped = True
        for runner in list(self._runners.values()):  # another thread may be making one
            runner.stop()
        if self._load:
            self._load.loader.stop()
        self._clock.wake()

    def upkeep(self, pipeline: str) -> Upkeep:
        """See `Pipeline.upkeep`."""
        return self.pipeline(pipeline).upkeep

    def compact_beside(self, pipelines: Iterable[str] | None = None, *, every: Duration) -> None:
        """Compact the tables of pipelines, by default of all, at an interval until `stop`.

        Call this in a separate process or thread while the pipelines run; the run then needs no compaction of its own
        (`compact_every = 0`). If a compaction fails, it is logged and tried again at the next interval.
        """
        names, interval = [runner.pipeline for runner in self.start(pipelines)], read_duration(every)
        while not self._stopped:
            for name in names:
                compact_or_log(name, self.upkeep)
            self._clock.sleep(interval)

    def pin(self, pipeline: str, *, at: Moment | None = None, hold: Duration, holder: str | None = None) -> Pin:
        """See `Pipeline.pin`."""
        return self.pipeline(pipeline).pin(at=at, hold=hold, holder=holder)

    def unpin(self, lease: str) -> None:
        """End a lease, named by its identifier.

        Raises:
            LeaseNotFound: there is no such lease.
        """
        if (pipeline := str(lease).rpartition("-")[0]) not in self.services:
            raise LeaseNotFound(f"there is no lease {lease!r}; `headwater versions` lists all leases")
        self.upkeep(pipeline).unpin(lease)

    def replay(self, pipeline: str) -> ReplayResult:
        """See `Pipeline.replay`."""
        return self.pipeline(pipeline).replay()

    def move(self, target: Headwater) -> dict[str, Publication]:
        """Copy every pipeline, as of its newest publication, to another backend.

        The target resumes from the same offsets of the sources. Nothing is lost or counted twice, even if this
        deployment runs at the same time. A pipeline without a publication is not copied: it starts at the beginning.

        Args:
            target: the same deployment on another backend.

        Returns:
            The publications of the target, by pipeline.

        Raises:
            ConfigError: the target already has one of the pipelines, or an unfinished move from elsewhere.
            NotSupported: the target's engine cannot read this engine's frames.
        """
        runners = zip(self.start(), check_type(target, Headwater, "a Headwater").start(), strict=True)
        pairs = ((here.for_large(), there.for_large()) for here, there in runners)
        copies = move(pairs, self.deployment.backend.location, target.deployment.backend.location)
        return {each.epoch.pipeline: each for each in copies}

    def bootstrap(
        self,
        pipeline: str,
        history: Mapping[str, str | HistoryTable],
        *,
        stream_from: str | Offsets = "beginning",
        files_per_chunk: int = FILES_PER_CHUNK,
    ) -> Publication | None:
        """Load the history of a wide table in bulk, before its stream takes over. An interrupted load is resumed.

        Readers see the history only when all of it is loaded. Its rows are processed like rows of the stream: by the
        topic's expressions, the checks for dead letters and the merge by sequence.

        Args:
            pipeline: its name.
            history: a plain table for each topic that has a history, with the columns of its source's schema: ``PATH``
                or ``PATH:FORMAT``, Parquet by default.
            stream_from: where the stream takes over: the ``beginning`` of the source, ``now``, or offsets by topic.
                It is determined before any history is read; a load that is resumed keeps its first value.
            files_per_chunk: files of each topic in one chunk. A load is resumed after its last finished chunk.

        Returns:
            The pipeline's first publication; None if the load was stopped first.

        Raises:
            ConfigError: the pipeline is not a wide table, has been run already, or its load began with other tables; a
                table has no files; or `stream_from` is none of these.
            NotSupported: the backend does not read a table's format.
            SourceChanged: the stream does not have the records after the offsets in `stream_from` any more.
            HeadwaterError: the load failed; call this again to resume after the last finished chunk.
        """
        runner = self._runner(pipeline).for_large()
        tables = {name: HistoryTable.parse(str(each)) for name, each in check_type(history, Mapping, "a dict").items()}
        service, source = self._container.history(pipeline, tables, files_per_chunk, self._runner)
        stream = stream_offsets(stream_from, runner.source.members, Now(runner.clock.now()))
        history_source = HistorySource(source, {topic: str(table) for topic, table in tables.items()}, stream)
        self._load = Bootstrap.of(runner, service, history_source, self._report)
        with runner.engine.working():
            return self._load.run()

    def rebuild(self, pipeline: str, *, again: bool = False, cancel: bool = False) -> Rebuilt | None:
        """Build a pipeline again with edited settings, beside its tables, and switch to the new ones at the end.

        Runs and readers with the former settings go on until the switch. An interrupted rebuild is resumed if the
        settings are still the same. Handles from before the switch raise `PipelineRebuilt`.

        Args:
            pipeline: its name.
            again: whether to build again what was rebuilt with these settings already.
            cancel: give up an unfinished rebuild instead, so that the old tables stay.

        Returns:
            What is current now; None if the rebuild was stopped first. Raises the errors of `Rebuild.run`.
        """
        rebuild = self.prepare_rebuild(pipeline)
        found = rebuild.cancel() if cancel else rebuild.run(again=again)
        self._runners.clear()
        self._container.renew_stores()
        return found

    def prepare_rebuild(self, pipeline: str, report: Callable[[EpochReport], None] = log_progress) -> Rebuild:
        """Create the rebuild that `rebuild` runs; `report` is called with its epochs, which nobody can read yet."""
        make = partial(self._container.runner, pipeline, report, self._runner, self._telemetry.watch)
        inputs = [self._runner(name) for name in find_inputs(self.deployment.pipelines[pipeline])]
        return Rebuild(self._runner(pipeline), make, digest_rebuild(self.deployment, pipeline), inputs)

    def roll(self, pipeline: str, cut: date | None = None) -> date:
        """See `Pipeline.roll`."""
        return self.pipeline(pipeline).roll(cut)

    def status(self, *, lag: bool = True) -> StatusTable:
        """The status of each pipeline; `print` and notebooks show it as a table. `lag`: whether sources are asked."""
        return StatusTable(self._status(self.deployment.pipelines, lag=lag), engines=self.chooses_engine)

    def _status(self, pipelines: Iterable[str], *, lag: bool) -> tuple[PipelineStatus, ...]:
        latencies = Latencies(self.deployment, self.services, lambda name: self.pipeline(name).ledger)
        return statuses_of(pipelines, lambda name: self.pipeline(name).status(latencies.of(name), lag=lag))

    def _repr_html_(self) -> str:
        """What is declared, for notebooks; nothing is started for it."""
        place = ", ".join(filter(None, (self.deployment.backend.name, self.deployment.backend.path)))
        rows = (describe(each, self.services[each.name]) for each in self.deployment.pipelines.values())
        return html_table(("pipeline", "service", "reads", "views"), rows, title=f"Headwater on {place}")

    def close(self) -> None:
        """Send the telemetry that waits, and stop the engine if this deployment started it; work is then refused."""
        try:
            self._telemetry.close()
        finally:
            self._closed = True
            self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _for_programs(self, pipeline: str) -> Pipeline:
        """A handle on the pipeline whose frames are those that programs get."""
        runner = self._runner(pipeline).for_programs()
        return Pipeline(runner, lambda: self._container.base_for_programs, self._pushes.push_to)

    def _take(self, draft: Draft) -> None:
        """See `Declarations`. The pipelines that have been started stay as they are."""
        deployment = draft.deployment()
        services = blueprints(deployment, self.services)
        self._container.extend(deployment)
        self.deployment, self.services = deployment, services

    def _runner(self, pipeline: str) -> Runner:
        if self._closed:
            raise ConfigError("this Headwater is closed; open another one")
        find_service(self.services, pipeline)
        with self._making:
            if pipeline not in self._runners:
                if self._draft is not None:
                    self._draft.deployment(whole=True)
                watch = self._telemetry.watch
                self._runners[pipeline] = made = self._container.runner(pipeline, self._report, self._runner, watch)
                if self._stopped:
                    made.stop()
            return self._runners[pipeline]
