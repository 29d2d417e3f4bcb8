"""The Python API: runs pipelines and reads their views as the engine's own DataFrames."""

from __future__ import annotations

import logging
from os import getpid
from socket import gethostname
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, field, frozen

from ..domain.errors import ConfigError, HeadwaterError, LeaseNotFound, VersionNotFound
from ..domain.ledger.label import Label
from ..domain.ledger.ledger import BaseSnapshot, Snapshot
from ..domain.ledger.upkeep import Upkeep
from ..domain.ports import Now
from ..domain.service.base import ReadAt
from ..domain.service.history_load import HistorySource
from ..domain.source import dead_letter
from ..domain.source.bulk import BULK
from ..domain.table.collect import collect_small
from ..domain.table.schema import Schema
from ..domain.table.view_spec import ViewSpec
from .config import Deployment, load
from .document.value_types import did_you_mean
from .read.difference import diff_spec, difference
from .read.latency import Latencies, Latency
from .read.moments import read_duration, read_moment, read_time
from .read.waiting import wait_for
from .run.bootstrap import FILES_PER_CHUNK, Bootstrap, HistoryTable, stream_offsets
from .run.clock import SystemClock
from .run.move import move
from .run.progress import progress
from .run.rounds import run_all
from .wiring.container import Container, blueprints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import date, datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ..domain.epoch.epoch import Offsets, Publication
    from ..domain.ledger.ledger import Ledger
    from ..domain.ledger.upkeep import Pin
    from ..domain.ports import FrameEngine
    from ..domain.service.base import PendingRows, Service
    from .read.moments import Duration, Moment, Time
    from .run.replay import ReplayResult
    from .run.report import EpochReport
    from .run.runner import Runner

_log = logging.getLogger(__name__)


def log_progress(report: EpochReport) -> None:
    """Log one line about an epoch, at level INFO; the default report of `Headwater`."""
    _log.info("%s", progress(report))


@frozen
class PipelineStatus:
    """The status of a pipeline.

    Args:
        pipeline: its name.
        publication: the newest one; None if nothing is published yet.
        lag: the unread input of the source, as text, or why it is unknown.
        dead_letters: their number.
        latency: expected and measured time until a record can be read.
        bookkeeping: rows that are stored only for a time (`Service.bookkeeping`).
        alarms: problems, each with its reason.
        repeats: rows that were skipped because they had been read before; None if the service never skips rows.
    """

    pipeline: str
    publication: Publication | None
    lag: str
    dead_letters: int
    latency: Latency
    bookkeeping: Mapping[str, PendingRows] = field(factory=dict)
    alarms: tuple[str, ...] = ()
    repeats: int | None = None


@frozen(eq=False)
class Answer:
    """The rows of a view as a lazy frame, with the view's columns and the engine of the frame."""

    view: ViewSpec
    frame: nw.LazyFrame[Any]
    engine: FrameEngine


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

    def run(self, pipelines: Iterable[str] | None = None, *, until_idle: bool = False) -> None:
        """Run pipelines, by default all of them, until `stop` or (with `until_idle`) until their sources are drained.

        Raises:
            HeadwaterError: a permanent fault, or a transient one that outlasted the retries. Nothing is lost: the next
                run resumes from the newest publication.
        """
        run_all(self.start(pipelines), until_idle=until_idle)

    def start(self, pipelines: Iterable[str] | None = None) -> list[Runner]:
        """Start the engine and create the runners of these pipelines; `run` calls this itself."""
        return [self._runner(name) for name in (self.deployment.pipelines if pipelines is None else pipelines)]

    def foreach_batch(self, pipeline: str) -> Callable[[Any, int], None]:
        """Return the function that your Structured Streaming query passes to ``writeStream.foreachBatch(…)``.

        Each batch becomes one epoch of the pipeline, whose source has ``kind = "stream"``. A batch that the query
        repeats is skipped. Keep the query's checkpoint: the batches of a query with a new checkpoint are refused.

        Raises:
            ConfigError: there is no such pipeline, or its source is not of kind ``stream``.
        """
        runner = self._runner(pipeline)
        submit = runner.source.submit
        if submit is None:
            raise ConfigError(f'pipeline {pipeline!r} reads its source itself; give the source kind = "stream"')

        def epoch(rows: Any, batch: int) -> None:
            query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            submit(query or "by hand", batch, rows)
            runner.advance()

        return epoch

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
        """Return the rows of a view as the engine's own DataFrame, of Polars or (lazy) of Spark.

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
        answer = self.answer(
            name, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
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
        until = None if as_of is None else read_time(as_of)
        if read_optimized and (spec.between or any(each is not None for each in (at, label, as_of, since, longest))):
            raise ConfigError(
                f"{name}: base files belong to no single version: read them without a version, or read the view itself"
            )
        snapshot = self.snapshot(pipeline, _moment(at, label))
        if read_optimized:
            snapshot = BaseSnapshot(snapshot.store, snapshot.publication, base=self._container.base)
        if longest is not None and snapshot.publication:
            every = self._service(pipeline).schedule
            self.upkeep(pipeline).check_lasts(snapshot.publication, read_duration(longest), every)
        frame = self._frame(pipeline, spec, snapshot, until, since)
        if not spec.schema.columns:  # each version has its own
            spec = evolve(spec, schema=Schema.of(frame))
        return Answer(spec, frame, self._container.engine)

    def diff(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Any:
        """Return the difference of a view between two publications as the engine's own DataFrame, lazy on Spark.

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
        answer = self.difference(name, after=after, until=until)
        return answer.engine.to_native(answer.frame)

    def difference(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Answer:
        """Return the difference of a view between two publications as an engine-independent frame; see `diff`."""
        pipeline, spec = self.find(name)
        wanted = diff_spec(f"{pipeline}.{spec.name}", spec)
        later = self.snapshot(pipeline, until)
        earlier = self.snapshot(pipeline, self._before(later) if after is None else after)
        if _number(earlier) > _number(later):
            raise ConfigError(
                f"epoch {_number(earlier)} is later than epoch {_number(later)}: give the earlier one first"
            )
        runner = self._runner(pipeline)
        stored = spec not in runner.service.views or spec.name in runner.options.materialize
        table = f"{pipeline}.{spec.name}" if stored else None
        with self._container.engine.working():
            frame = difference(runner.service, spec, table, earlier, later)
        if not spec.schema.columns:  # each version has its own
            wanted = evolve(wanted, schema=Schema.of(frame))
        return Answer(wanted, frame.select(*wanted.schema.names), self._container.engine)

    def wait_for(self, pipeline: str, watermark: Time, *, timeout: Duration | None = None) -> Publication:
        """Wait until a pipeline's newest publication has reached a watermark. Any process may run the pipeline.

        Args:
            pipeline: its name.
            watermark: the event time to wait for; in UTC if it has no zone.
            timeout: the longest wait; None to wait until `stop`.

        Returns:
            That publication; read views with ``at=publication.epoch.number``.

        Raises:
            WaitTimeout: the watermark was not reached in time; the message names the watermark of the pipeline.
        """
        runner = self._runner(pipeline)
        return wait_for(
            lambda: self._ledger(pipeline).latest,
            read_time(watermark),
            clock=runner.clock,
            poll=runner.options.poll,
            timeout=None if timeout is None else read_duration(timeout),
            stopping=lambda: runner.stopping,
        )

    def explaining(self) -> AbstractContextManager[None]:
        """Compute a view's frame inside this context to get Headwater's errors, with a remedy, instead of the engine's.

        Raises:
            VersionExpired: the frame's version expired after the view was read, because no lease held it.
            TableDamaged: a file is truncated or was changed.
            StoreUnavailable: the rows cannot be reached at the moment.
        """
        return self._container.engine.explaining()

    def changes(self, pipeline: str, *, after: Moment, until: Moment | None = None) -> Any:
        """Return the rows of a pipeline's view of changes between two publications, as the engine's own DataFrame.

        Args:
            pipeline: its name.
            after: the earlier epoch, time or `Label`; epoch -1 is before the first.
            until: the later one; the newest if not set.

        Raises:
            ConfigError: the pipeline has no view of changes.
            VersionNotFound: nothing was published at `after` or `until`.
        """
        between = [view.name for view in self._service(pipeline).views if view.between]
        if not between:
            raise ConfigError(f"pipeline {pipeline!r} has no view of changes")
        return self.view(f"{pipeline}.{between[0]}", at=until, since=after)

    def epoch(self, pipeline: str) -> int:
        """The number of the newest published epoch; -1 if nothing is published yet."""
        return self._ledger(pipeline).next_epoch.number - 1

    def loading(self, pipeline: str) -> bool:
        """Whether a load of the history has begun and nothing is published yet."""
        return self._runner(pipeline).loading

    def snapshot(self, pipeline: str, at: Moment | None = None) -> Snapshot:
        """All tables of a pipeline as of one publication, the newest if `at` is not set.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: that version has expired.
        """
        ledger = self._ledger(pipeline)
        if at is None:
            return ledger.snapshot()
        moment = read_moment(at)
        if isinstance(moment, Label):
            return ledger.snapshot(ledger.as_of_label(moment, self._service(pipeline).label))
        if isinstance(moment, int):
            return Snapshot(ledger.store, None) if moment == -1 else ledger.snapshot(ledger.as_of_epoch(moment))
        return ledger.snapshot(ledger.as_of_time(moment))

    def upkeep(self, pipeline: str) -> Upkeep:
        """The maintenance of a pipeline's tables: compact, expire, pin, and explain why a version is kept."""
        runner = self._runner(pipeline)
        return Upkeep(self._ledger(pipeline), runner.keeper, runner.options.retention)

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
        """Keep a publication readable. Call this before a read that takes longer than the retention allows.

        Args:
            pipeline: its name.
            at: an epoch, a time (ISO text, datetime) or a label; the newest publication if not set.
            hold: the longest time to keep it; to renew it, pin again before it ends.
            holder: who reads, for display; this machine and process if not set.

        Returns:
            A pin to release, or to use as a context manager; read views with ``at=pin.epoch``.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: the version has expired, or is being removed.
        """
        publication = self.snapshot(pipeline, at).publication
        if publication is None:
            raise VersionNotFound(f"pipeline {pipeline!r} has published nothing that could be held; run it first")
        return self.upkeep(pipeline).pin(publication, holder or f"{gethostname()}:{getpid()}", read_duration(hold))

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
        """Read a pipeline's dead letters again, after their cause has been fixed.

        This is a separate epoch. Its publication adds the rows of a dead letter and removes the dead letter, in one
        step. The pipeline must not run at the same time.

        Raises:
            ConfigError: there is no such pipeline, or it has no dead letters table.
            EpochConflict: the pipeline is running; nothing is changed.
            SourceChanged: a CSV file whose header is needed is missing; nothing is changed.
        """
        return self._runner(pipeline).replay()

    def move(self, target: Headwater) -> dict[str, Publication]:
        """Copy every pipeline, as of its newest publication, to another backend.

        The target resumes from the same offsets of the sources. Nothing is lost or counted twice, even if this
        deployment runs at the same time. A pipeline that has published nothing is not copied: it starts from the
        beginning on the target.

        Args:
            target: the same deployment on another backend.

        Returns:
            The publications of the target, by pipeline.

        Raises:
            ConfigError: the target already has one of the pipelines.
            NotSupported: the target's engine cannot read this engine's frames.
        """
        runners = zip(self.start(), target.start(), strict=True)
        with self._container.engine.working():
            publications = [move(here, there) for here, there in runners]
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
        runner = self._runner(pipeline)
        tables = {
            topic: HistoryTable.parse(table) if isinstance(table, str) else table for topic, table in history.items()
        }
        service, source = self._container.history(pipeline, tables, files_per_chunk, self._runner)
        stream = stream_offsets(stream_from, runner.source.members)
        history_source = HistorySource(source, {topic: str(table) for topic, table in tables.items()}, stream)
        self._load = Bootstrap.of(runner, service, history_source, self._report)
        with self._container.engine.working():
            return self._load.run()

    def roll(self, pipeline: str, cut: date | None = None) -> date:
        """Move the days before a cut into a retraction's past, or read a user-supplied past again.

        Args:
            pipeline: its name.
            cut: the first day after the past; if not set, the day of the watermark, or today without a watermark.

        Returns:
            The cut.

        Raises:
            ConfigError: the pipeline is not a retraction, has published nothing, or its past reaches beyond the cut.
        """
        service = self._runner(pipeline).service
        day_of, roll = service.day_of, service.roll
        if day_of is None or roll is None:
            raise ConfigError(f"pipeline {pipeline!r} has no past that is cut by day; retractions have")
        latest = self._ledger(pipeline).latest
        day = cut or day_of((latest and latest.watermark) or self._clock.now())
        self._runner(pipeline).amend(f"roll {day}", lambda _epoch, snapshot: roll(day, snapshot))
        return day

    def settled(self, pipeline: str, keys: Any, *, at: Moment | None = None, as_of: Time | None = None) -> Any:
        """Return whether keys of a bulk merge are exact already; its bulk may still be loading.

        Args:
            pipeline: its name.
            keys: a DataFrame of the engine with at least the first column of the key, never null.
            at: the version to read: an epoch, a time or a `Label`; the newest publication if not set.
            as_of: the event time (UTC) at which `rows` will be read.

        Returns:
            The same DataFrame with boolean ``settled``.

        Raises:
            ConfigError: the pipeline is not a bulk merge, or there is no such pipeline.
            VersionNotFound: nothing was published at `at`.
            VersionExpired: that version has expired.
        """
        runner = self._runner(pipeline)
        settled, bulk = runner.service.settled, runner.source.bulk
        if settled is None or bulk is None:
            raise ConfigError(f"pipeline {pipeline!r} is not a bulk merge: all its keys are always exact")
        snapshot = self.snapshot(pipeline, at)
        offsets = snapshot.publication.offsets if snapshot.publication else {}
        remaining = bulk.remaining(offsets.get(BULK))
        moment = None if as_of is None else read_time(as_of)
        engine = self._container.engine
        with engine.working():
            answer = settled(engine.from_native(keys), snapshot, remaining, moment)
        return engine.to_native(answer)

    def status(self) -> tuple[PipelineStatus, ...]:
        """The status of each pipeline."""
        latencies = Latencies(self.deployment, self.services, self._ledger)
        return tuple(self._status(name, latencies.of(name)) for name in self.deployment.pipelines)

    def find(self, name: str) -> tuple[str, ViewSpec]:
        """Return the pipeline and the view that a name stands for. A view comes before a table of the same name.

        Raises:
            ConfigError: there is no such pipeline or view; the message lists those that exist.
        """
        pipeline, _, wanted = name.partition(".")
        service = self._service(pipeline)
        tables = (
            ViewSpec(table.name.split(".", 1)[1], table.schema, table.key, table.key, "") for table in service.tables
        )
        known = {view.name: view for view in (*tables, *service.views)}
        wanted = wanted or service.views[0].name
        if wanted not in known:
            listed = ", ".join(sorted(known))
            raise ConfigError(
                f"pipeline {pipeline!r} has no view {wanted!r}; there are: {listed}{did_you_mean(wanted, known)}"
            )
        return pipeline, known[wanted]

    def close(self) -> None:
        """Stop the engine if this deployment has started it."""
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _service(self, pipeline: str) -> Service:
        if pipeline not in self.services:
            listed = ", ".join(self.services) or "none"
            raise ConfigError(
                f"there is no pipeline {pipeline!r}; there are: {listed}{did_you_mean(pipeline, self.services)}"
            )
        return self.services[pipeline]

    def _runner(self, pipeline: str) -> Runner:
        self._service(pipeline)
        if pipeline not in self._runners:
            self._runners[pipeline] = self._container.runner(pipeline, self._report, self._runner)
        return self._runners[pipeline]

    def _ledger(self, pipeline: str) -> Ledger:
        """The current ledger, opened for reading; it does not disturb a run."""
        return self._runner(pipeline).current_ledger()

    def _frame(
        self, pipeline: str, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None, since: Moment | None
    ) -> nw.LazyFrame[Any]:
        service = self._runner(pipeline).service
        if spec not in service.views:
            return snapshot.read(f"{pipeline}.{spec.name}")
        earlier = self.snapshot(pipeline, self._before(snapshot) if since is None else since) if spec.between else None
        with self._container.engine.working():
            return service.view(spec.name, ReadAt(snapshot, as_of, earlier))

    def _before(self, snapshot: Snapshot) -> int:
        return max(_number(snapshot) - 1, -1)

    def _status(self, pipeline: str, latency: Latency) -> PipelineStatus:
        runner, latest = self._runner(pipeline), self._ledger(pipeline).latest
        try:
            lag = runner.source.lag(latest.offsets if latest else None)
        except HeadwaterError as error:
            lag = f"unknown: {error}"
        if runner.loading:
            lag = f"{lag}; its history is being loaded"
        with self._container.engine.working():
            snapshot = self.snapshot(pipeline)
            bookkeeping = runner.service.bookkeeping(snapshot) if latest else {}
            repeats = runner.service.repeats(snapshot) if latest else None
        dead_letters, alarms = self._dead_letters(pipeline), tuple(self._append_error(self._alarms(runner, latest)))
        return PipelineStatus(pipeline, latest, lag, dead_letters, latency, bookkeeping, alarms, repeats)

    def _append_error(self, alarms: Iterator[str]) -> Iterator[str]:
        """Yield alarms; if finding them fails, the error is the last one."""
        try:
            yield from alarms
        except HeadwaterError as error:
            yield str(error)

    def _alarms(self, runner: Runner, latest: Publication | None) -> Iterator[str]:
        now = Now(self._clock.now(), watermark=latest.watermark if latest else None)
        yield from runner.source.alarms(latest.offsets if latest else None, now)

    def _dead_letters(self, pipeline: str) -> int:
        name = dead_letter.table(pipeline)
        if name not in {spec.name for spec in self.services[pipeline].tables}:
            return 0
        with self._container.engine.working():
            (row,) = collect_small(self.snapshot(pipeline).read(name).select(nw.len().alias("count")))
        return int(row["count"])


def _number(snapshot: Snapshot) -> int:
    return snapshot.publication.epoch.number if snapshot.publication else -1


def _moment(at: Moment | None, label: str | datetime | None) -> Moment | None:
    if label is None:
        return at
    if at is not None:
        raise ConfigError("at and label both name a version: give one of them")
    return Label.parse(label) if isinstance(label, str) else Label(label)
