"""The Python API: runs pipelines and reads their views as the engine's own DataFrames."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..domain.errors import ConfigError, HeadwaterError, LeaseNotFound
from ..domain.service.history_load import HistorySource
from ..domain.table.view_spec import ViewSpec
from .config import Deployment, load
from .pipeline import Answer, Pipeline, PipelineStatus
from .read.find_view import find_service, find_view
from .read.latency import Latencies
from .read.moments import read_duration
from .run.beside import work_beside
from .run.bootstrap import FILES_PER_CHUNK, Bootstrap, HistoryTable, stream_offsets
from .run.clock import SystemClock
from .run.move import move
from .run.progress import log_progress
from .run.rounds import run_all
from .wiring.blueprints import blueprints
from .wiring.container import Container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager
    from datetime import date, datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ..domain.epoch.epoch import Offsets, Publication
    from ..domain.ledger.ledger import Snapshot
    from ..domain.ledger.upkeep import Pin, Upkeep
    from ..domain.service.base import Service
    from .read.moments import Duration, Moment, Time
    from .run.replay import ReplayResult
    from .run.report import EpochReport
    from .run.runner import Runner

_log = logging.getLogger(__name__)


class Headwater:
    """A deployment: runs its pipelines and reads their views. Close it, or use it as a context manager.

    Args:
        deployment: backend, sources and pipelines, read by `from_config` or built by a program.
        report: called with each published epoch; by default it logs a line at level INFO.

    Raises:
        ConfigError: a service refuses its settings; nothing has been started.
    """

    def __init__(self, deployment: Deployment, *, report: Callable[[EpochReport], None] = log_progress) -> None:
        self.deployment = deployment
        self.services: Mapping[str, Service] = blueprints(deployment)
        self._report = report
        self._clock = SystemClock()
        self._container = Container(deployment, self._clock)
        self._runners: dict[str, Runner] = {}
        self._load: Bootstrap | None = None
        self._stopped = False

    @classmethod
    def from_config(
        cls,
        path: str | Path,
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

    @property
    def chooses_engine(self) -> bool:
        """Whether an engine is chosen for each epoch (``engine = "auto"``); reports and `status` then name it."""
        return self._container.chooses

    def pipeline(self, name: str) -> Pipeline:
        """Return a handle on one pipeline; `ConfigError` is raised if there is none of that name."""
        return Pipeline(self._runner(name), lambda: self._container.base)

    def run(self, pipelines: Iterable[str] | None = None, *, until_idle: bool = False) -> None:
        """Run pipelines, by default all of them, until `stop` or (with `until_idle`) until their sources are drained.

        Where the backend can, upkeep is done and views are published beside the epochs; all of it has ended when this
        returns.

        Raises:
            HeadwaterError: a permanent fault, or a transient one that outlasted the retries. Nothing is lost: the next
                run resumes from the newest publication.
        """
        runners = self.start(pipelines)
        with work_beside(runners):
            run_all(runners, until_idle=until_idle)

    def start(self, pipelines: Iterable[str] | None = None) -> list[Runner]:
        """Start the engine and create the runners of these pipelines; `run` calls this itself."""
        return [self._runner(name) for name in (self.deployment.pipelines if pipelines is None else pipelines)]

    def foreach_batch(self, pipeline: str) -> Callable[[Any, int], None]:
        """See `Pipeline.foreach_batch`."""
        return self.pipeline(pipeline).foreach_batch()

    def stop(self) -> None:
        """Ask the run to end after the current epoch; safe in a signal handler."""
        self._stopped = True
        for runner in self._runners.values():
            runner.stop()
        if self._load:
            self._load.stop()
        self._clock.wake()

    def view(
        self,
        name: str,
        *,
        at: Moment | None = None,
        label: str | datetime | None = None,
        as_of: Time | None = None,
        since: Moment | None = None,
        longest: Duration | None = None,
        read_optimized: bool = False,
    ) -> Any:
        """Return the rows of a view as a DataFrame of Polars or (lazy) of Spark.

        Spark's, if the backend uses Spark and the configuration does not set ``engine = "local"`` or ``"auto"``.

        Args:
            name: ``pipeline.view``; the pipeline alone for its first view. A table of the pipeline
                (``pipeline.dead_letters``) can be read as well.
            at: the version to read: an epoch, a time or a `Label`; the newest publication if not set.
            label: instead of `at`: the newest version with this label, the watermark of its inputs
                (``2024-03-01T09:00:00Z``).
            as_of: only rows up to this event time.
            since: the earlier version, for a view that compares two; the epoch before `at` if not set.
            longest: the longest time that the read may take. The read is refused if its rows could expire before it
                ends.
            read_optimized: read base files only, each as of its last compaction: the cheapest read of merge-on-read
                tables.

        Raises:
            ConfigError: there is no such pipeline or view, or the view has no event time for `as_of`; or
                `read_optimized` is combined with a version, because base files belong to no single one.
            NotSupported: `read_optimized`, and the backend's tables have no log next to their base files.
            VersionNotFound: nothing was published at `at`, or with the label.
            VersionExpired: that version has expired.
            RetentionTooShort: the rows may expire within `longest`: pin the publication first.
        """
        pipeline, spec = self.find(name)
        answer = self._for_programs(pipeline).answer(
            spec, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
        )
        return answer.engine.to_native(answer.frame)

    def answer(
        self,
        name: str,
        *,
        at: Moment | None = None,
        label: str | datetime | None = None,
        as_of: Time | None = None,
        since: Moment | None = None,
        longest: Duration | None = None,
        read_optimized: bool = False,
    ) -> Answer:
        """Return the rows of a view as an engine-independent frame; see `view`."""
        pipeline, spec = self.find(name)
        return self.pipeline(pipeline).answer(
            spec, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
        )

    def diff(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Any:
        """Return the difference of a view between two publications as a DataFrame; see `view` for its kind.

        Args:
            name: ``pipeline.view``, or a table of the pipeline; the pipeline alone for its first view.
            after: the earlier epoch, time or label; the epoch before `until` if not set; -1 is before the first epoch.
            until: the later one; the newest if not set.

        Returns:
            The view's columns and string ``_row_kind``. If rows have a key: ``+I`` is an inserted row, ``-D`` a deleted
            one, ``-U`` the old and ``+U`` the new row of an update. Without a key: ``+I`` and ``-D`` with whole rows,
            and bigint ``_multiplicity``, the number of equal rows.

        Raises:
            ConfigError: there is no such pipeline or view; the view itself compares versions; or `after` is later than
                `until`.
            VersionNotFound: nothing was published at `after` or `until`.
            VersionExpired: one of the two versions has expired.
        """
        pipeline, spec = self.find(name)
        answer = self._for_programs(pipeline).difference(spec, after=after, until=until)
        return answer.engine.to_native(answer.frame)

    def difference(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Answer:
        """Return the difference of a view between two publications as an engine-independent frame; see `diff`."""
        pipeline, spec = self.find(name)
        return self.pipeline(pipeline).difference(spec, after=after, until=until)

    def wait_for(self, pipeline: str, watermark: Time, *, timeout: Duration | None = None) -> Publication:
        """See `Pipeline.wait_for`."""
        return self.pipeline(pipeline).wait_for(watermark, timeout=timeout)

    def explaining(self) -> AbstractContextManager[None]:
        """Compute a view's frame inside this context to get Headwater's errors, with a remedy, instead of the engine's.

        Raises:
            VersionExpired: the frame's version expired after the view was read, because no lease held it.
            TableDamaged: a file is truncated or was changed.
            StoreUnavailable: the rows cannot be reached at the moment.
        """
        return self._container.explaining()

    def changes(self, pipeline: str, *, after: Moment, until: Moment | None = None) -> Any:
        """Return the rows of a pipeline's view of changes between two publications as a DataFrame; see `view`.

        Args:
            pipeline: its name.
            after: the earlier epoch, time or `Label`; epoch -1 is before the first.
            until: the later one; the newest if not set.

        Raises:
            ConfigError: the pipeline has no view of changes.
            VersionNotFound: nothing was published at `after` or `until`.
        """
        between = [view.name for view in find_service(self.services, pipeline).views if view.between]
        if not between:
            raise ConfigError(f"pipeline {pipeline!r} has no view of changes")
        return self.view(f"{pipeline}.{between[0]}", at=until, since=after)

    def epoch(self, pipeline: str) -> int:
        """See `Pipeline.epoch`."""
        return self.pipeline(pipeline).epoch

    def loading(self, pipeline: str) -> bool:
        """See `Pipeline.loading`."""
        return self.pipeline(pipeline).loading

    def snapshot(self, pipeline: str, at: Moment | None = None) -> Snapshot:
        """See `Pipeline.snapshot`."""
        return self.pipeline(pipeline).snapshot(at)

    def upkeep(self, pipeline: str) -> Upkeep:
        """See `Pipeline.upkeep`."""
        return self.pipeline(pipeline).upkeep

    def compact_beside(self, pipelines: Iterable[str] | None = None, *, every: Duration) -> None:
        """Compact the tables of pipelines, by default of all, at an interval until `stop`.

        Call this in a separate process or thread while the pipelines run; the run then needs no compaction of its own
        (`compact_every = 0`). If a compaction fails, it is logged and tried again at the next interval.
        """
        names = list(self.deployment.pipelines if pipelines is None else pipelines)
        while not self._stopped:
            for name in names:
                try:
                    made = self.upkeep(name).compact()
                    _log.info("%s: compacted %s", name, ", ".join(table for table in made if made[table]) or "nothing")
                except HeadwaterError as fault:
                    _log.warning("%s: compact failed, and will be tried again: %s", name, fault)
            self._clock.sleep(read_duration(every))

    def pin(self, pipeline: str, *, at: Moment | None = None, hold: Duration, holder: str | None = None) -> Pin:
        """See `Pipeline.pin`."""
        return self.pipeline(pipeline).pin(at=at, hold=hold, holder=holder)

    def unpin(self, lease: str) -> None:
        """End a lease, named by its identifier.

        Raises:
            LeaseNotFound: there is no such lease.
        """
        pipeline = lease.rpartition("-")[0]
        if pipeline not in self.services:
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
            ConfigError: the target already has one of the pipelines.
            NotSupported: the target's engine cannot read this engine's frames.
        """
        runners = zip(self.start(), target.start(), strict=True)
        publications = [move(here.for_large(), there.for_large()) for here, there in runners]
        return {publication.epoch.pipeline: publication for publication in publications if publication}

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
            ConfigError: the pipeline is not a wide table, has been run already, or its load began with other tables.
            NotSupported: the backend does not read a table's format.
            HeadwaterError: the load failed; call this again to resume after the last finished chunk.
        """
        runner = self._runner(pipeline).for_large()
        tables = {topic: HistoryTable.parse(str(table)) for topic, table in history.items()}
        service, source = self._container.history(pipeline, tables, files_per_chunk, self._runner)
        stream = stream_offsets(stream_from, runner.source.members)
        history_source = HistorySource(source, {topic: str(table) for topic, table in tables.items()}, stream)
        self._load = Bootstrap.of(runner, service, history_source, self._report)
        with runner.engine.working():
            return self._load.run()

    def roll(self, pipeline: str, cut: date | None = None) -> date:
        """See `Pipeline.roll`."""
        return self.pipeline(pipeline).roll(cut)

    def settled(self, pipeline: str, keys: Any, *, at: Moment | None = None, as_of: Time | None = None) -> Any:
        """See `Pipeline.settled`."""
        return self._for_programs(pipeline).settled(keys, at=at, as_of=as_of)

    def status(self) -> tuple[PipelineStatus, ...]:
        """The status of each pipeline."""
        latencies = Latencies(self.deployment, self.services, lambda name: self.pipeline(name).ledger)
        return tuple(self.pipeline(name).status(latencies.of(name)) for name in self.deployment.pipelines)

    def find(self, name: str) -> tuple[str, ViewSpec]:
        """Return the pipeline and the view that a name stands for. A view comes before a table of the same name.

        Raises:
            ConfigError: there is no such pipeline or view; the message lists those that exist.
        """
        return find_view(self.services, name)

    def close(self) -> None:
        """Stop the engine if this deployment has started it."""
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _for_programs(self, pipeline: str) -> Pipeline:
        """A handle on the pipeline whose frames are those that programs get."""
        return Pipeline(self._runner(pipeline).for_programs(), lambda: self._container.base)

    def _runner(self, pipeline: str) -> Runner:
        find_service(self.services, pipeline)
        if pipeline not in self._runners:
            self._runners[pipeline] = self._container.runner(pipeline, self._report, self._runner)
        return self._runners[pipeline]
