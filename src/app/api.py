"""Headwater inside a program: run pipelines, and ask for their views as the engine's own frames."""

from __future__ import annotations

import logging
from os import getpid
from socket import gethostname
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, field, frozen

from ..domain import dead_letter
from ..domain.bulk import BULK, BulkGroup
from ..domain.bulk_merge import BulkMerge
from ..domain.collect import collect_small
from ..domain.errors import ConfigError, HeadwaterError, LeaseNotFound, VersionNotFound
from ..domain.label import Label
from ..domain.ledger import BaseSnapshot, Snapshot
from ..domain.loading import History
from ..domain.ports import HandedOver
from ..domain.retraction import Retraction
from ..domain.schema import Schema
from ..domain.service import ViewSpec
from ..domain.topic_group import TopicGroup
from ..domain.upkeep import Upkeep
from .bootstrap import FILES_PER_CHUNK, Bootstrap, HistoryTable, stream_offsets
from .clock import SystemClock
from .config import Deployment, load
from .config.kinds import did_you_mean
from .container import Container, blueprints
from .difference import diff_spec, difference
from .latency import Latencies, Latency
from .moments import read_duration, read_moment, read_time
from .move import move
from .progress import progress
from .runner import EpochReport, Runner, run_all
from .view_inputs import ViewInputs
from .waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import date, datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ..domain.epoch import Offsets, Publication
    from ..domain.ledger import Ledger
    from ..domain.ports import FrameEngine
    from ..domain.service import Kept, Service
    from ..domain.upkeep import Pin
    from .moments import Duration, Moment, Time
    from .replay import Replayed

_log = logging.getLogger(__name__)


def log_progress(report: EpochReport) -> None:
    """Tell the log of an epoch; what `Headwater` does where it is given nothing else."""
    _log.info("%s", progress(report))


@frozen
class PipelineStatus:
    """Where a pipeline stands.

    Args:
        pipeline: its name.
        publication: the newest one; None before the first.
        lag: what waits in the source, in words, or why that cannot be told.
        dead_letters: how many there are.
        latency: how long it takes until a record can be read: expected, and measured.
        bookkeeping: what is kept only until what it waits for has come (`Service.bookkeeping`).
        alarms: what does not go as it should, each with the reason.
        repeats: rows that were passed over, as they had been read before; None where none ever is.
    """

    pipeline: str
    publication: Publication | None
    lag: str
    dead_letters: int
    latency: Latency
    bookkeeping: Mapping[str, Kept] = field(factory=dict)
    alarms: tuple[str, ...] = ()
    repeats: int | None = None


@frozen(eq=False)
class Answer:
    """A view's rows, not computed yet, and what they look like."""

    view: ViewSpec
    frame: nw.LazyFrame[Any]
    engine: FrameEngine


class Headwater:
    """A deployment: runs its pipelines and answers their views. Close it, or use it as a context manager.

    Args:
        deployment: backend, sources and pipelines, as `from_config` reads them or a program makes them.
        report: told of every epoch published; the log of level INFO if not given.

    Raises:
        ConfigError: a service refuses its settings; nothing has been started then.
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
        """A deployment from its TOML file.

        Args:
            path: the file; relative paths in it start from its folder.
            environ: the environment that overrides it; the process's own if not given.
            report: see `Headwater`.

        Raises:
            ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
        """
        return cls(load(path, environ), report=report)

    def run(self, pipelines: Iterable[str] | None = None, *, until_idle: bool = False) -> None:
        """Run pipelines side by side, all of them if none is named, until `stop`, or until their sources are drained.

        Raises:
            HeadwaterError: a fault that does not pass, or did not within the retries. Nothing is lost: the next run
                goes on from the newest publication.
        """
        run_all(self.start(pipelines), until_idle=until_idle)

    def start(self, pipelines: Iterable[str] | None = None) -> list[Runner]:
        """Start the engine, and what runs these pipelines; `run` does so by itself."""
        return [self._runner(name) for name in (self.deployment.pipelines if pipelines is None else pipelines)]

    def foreach_batch(self, pipeline: str) -> Callable[[Any, int], None]:
        """What a Structured Streaming query of your own is to call: ``writeStream.foreachBatch(…)``.

        Each batch becomes one epoch of the pipeline, whose source has ``kind = "stream"``; a batch that the query
        repeats is passed over. The query keeps its checkpoint: without it, a new query's batches are refused.

        Raises:
            ConfigError: there is no such pipeline, or its source is read by Headwater itself.
        """
        runner = self._runner(pipeline)
        source = runner.source
        if not isinstance(source, HandedOver):
            raise ConfigError(f'pipeline {pipeline!r} reads its source itself; give the source kind = "stream"')

        def epoch(rows: Any, batch: int) -> None:
            query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            source.offer(query or "by hand", batch, rows)
            runner.advance()

        return epoch

    def stop(self) -> None:
        """Ask a run to end after the epoch under way; safe in a signal handler."""
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
        """The rows of a view, as the engine's own DataFrame: Polars', or Spark's, not computed yet.

        Args:
            name: ``pipeline.view``; the pipeline alone for its first view. A table that the pipeline keeps
                (``pipeline.dead_letters``) can be asked for as well.
            at: as known at an epoch, a time or a `Label`; the newest publication if not given.
            label: the newest version of this label, the watermark of its inputs (``2024-03-01T09:00:00Z``), in the
                place of `at`.
            as_of: only what had happened up to this event time.
            since: the earlier one for a view that is asked between two; the epoch before `at` if not given.
            longest: how long the read may take at most: refused now, where the rows could go before it ends.
            read_optimized: answer from base files alone, as of each one's last compaction: the cheapest read of tables
                that are merged on read.

        Raises:
            ConfigError: there is no such pipeline or view, or it has no event time to go by; or base files, which are
                no publication, are asked for one.
            NotSupported: `read_optimized`, and the backend's tables keep no log beside their base files.
            VersionNotFound: nothing was published at `at`, or with the label.
            VersionExpired: it has been cleaned away.
            RetentionTooShort: the rows are not sure to be kept for `longest`: pin the publication first.
        """
        answer = self.answer(
            name, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
        )
        return answer.engine.hand_out(answer.frame)

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
        """The rows of a view for any engine; see `view`."""
        pipeline, spec = self.find(name)
        until = None if as_of is None else read_time(as_of)
        if read_optimized and (spec.between or any(each is not None for each in (at, label, as_of, since, longest))):
            raise ConfigError(f"{name}: base files are of no one moment: ask for them alone, or for the view itself")
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
        """How a view differs between two publications, as the engine's own DataFrame, not computed yet on Spark.

        Args:
            name: ``pipeline.view``, or a table that the pipeline keeps; the pipeline alone for its first view.
            after: the earlier epoch, time or label; the epoch before `until` if not given; -1 is before all.
            until: the later one; the newest if not given.

        Returns:
            The view's columns and string ``_row_kind``. Where rows have a key: ``+I`` for one that came, ``-D`` for one
            that went, ``-U`` with the old and ``+U`` with the new row where they differ; else whole rows, ``+I`` and
            ``-D``, and bigint ``_multiplicity``: how many equal ones.

        Raises:
            ConfigError: there is no such pipeline or view; it is one of changes; or `after` is the later one.
            VersionNotFound: nothing was published at one of them.
            VersionExpired: it has been cleaned away.
        """
        answer = self.difference(name, after=after, until=until)
        return answer.engine.hand_out(answer.frame)

    def difference(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Answer:
        """How a view differs between two publications, for any engine; see `diff`."""
        pipeline, spec = self.find(name)
        wanted = diff_spec(f"{pipeline}.{spec.name}", spec)
        later = self.snapshot(pipeline, until)
        earlier = self.snapshot(pipeline, self._before(later) if after is None else after)
        if _number(earlier) > _number(later):
            raise ConfigError(
                f"epoch {_number(earlier)} is later than epoch {_number(later)}: give the earlier one first"
            )
        runner = self._runner(pipeline)
        kept = spec not in runner.service.views or spec.name in runner.options.materialize
        table = f"{pipeline}.{spec.name}" if kept else None
        with self._container.engine.working():
            frame = difference(runner.service, spec, table, earlier, later)
        if not spec.schema.columns:  # each version has its own
            wanted = evolve(wanted, schema=Schema.of(frame))
        return Answer(wanted, frame.select(*wanted.schema.names), self._container.engine)

    def wait_for(self, pipeline: str, watermark: Time, *, timeout: Duration | None = None) -> Publication:
        """Wait until a pipeline's newest publication has reached a watermark, whichever process runs the pipeline.

        Args:
            pipeline: its name.
            watermark: the event time up to which input is wanted; in UTC if it has no zone.
            timeout: after which to give up; None to wait until `stop`.

        Returns:
            That publication; ask for views with ``at=publication.epoch.number``.

        Raises:
            WaitTimeout: it has not come in time; the message says how far the pipeline is.
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
        """Compute a view's frame inside, and stored rows that it cannot read are told with a remedy.

        Raises:
            VersionExpired: the frame's version was given up after it was asked for, without a lease.
            TableDamaged: a file is cut off or changed.
            StoreUnavailable: the rows cannot be reached just now.
        """
        return self._container.engine.explaining()

    def changes(self, pipeline: str, *, after: Moment, until: Moment | None = None) -> Any:
        """What changed in a pipeline's answer between two publications, as the engine's own DataFrame.

        Args:
            pipeline: its name.
            after: the earlier epoch, time or `Label`; epoch -1 is the one before all.
            until: the later one; the newest if not given.

        Raises:
            ConfigError: the pipeline has no view that is asked between two publications.
            VersionNotFound: nothing was published at one of them.
        """
        between = [view.name for view in self._service(pipeline).views if view.between]
        if not between:
            raise ConfigError(f"pipeline {pipeline!r} has no view of changes")
        return self.view(f"{pipeline}.{between[0]}", at=until, since=after)

    def epoch(self, pipeline: str) -> int:
        """The number of the newest epoch published; -1 before the first."""
        return self._ledger(pipeline).next_epoch.number - 1

    def loading(self, pipeline: str) -> bool:
        """Whether a load of its history has begun, and nothing is published yet."""
        return self._runner(pipeline).loading

    def snapshot(self, pipeline: str, at: Moment | None = None) -> Snapshot:
        """All tables of a pipeline, pinned at one publication, the newest if none is given.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: it has been cleaned away.
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
        """What can be done for a pipeline's tables: compact, expire, pin, and tell why a version is kept."""
        runner = self._runner(pipeline)
        return Upkeep(self._ledger(pipeline), runner.keeper, runner.options.retention)

    def compact_beside(self, pipelines: Iterable[str] | None = None, *, every: Duration) -> None:
        """Compact pipelines' tables again and again, all of them if none is named, until `stop`.

        That may be done in a process or a thread of its own while the stream runs, which then needs not compact by
        itself (`compact_every = 0`). A compaction that fails is left for the next time.
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
        """Keep a publication readable: take this before a read that lasts longer than the retention lets it.

        Args:
            pipeline: its name.
            at: an epoch, a time (ISO text, datetime) or a label; the newest publication if not given.
            hold: for how long at most; to renew it, pin again before.
            holder: who asks, for people to read; this machine and process if not given.

        Returns:
            A pin to release, or to use as a context manager; ask for views with ``at=pin.epoch``.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: it has been cleaned away, or is about to.
        """
        publication = self.snapshot(pipeline, at).publication
        if publication is None:
            raise VersionNotFound(f"pipeline {pipeline!r} has published nothing that could be held; run it first")
        return self.upkeep(pipeline).pin(publication, holder or f"{gethostname()}:{getpid()}", read_duration(hold))

    def unpin(self, lease: str) -> None:
        """Take a lease back by its name.

        Raises:
            LeaseNotFound: there is none.
        """
        pipeline = lease.rpartition("-")[0]
        if pipeline not in self.services:
            raise LeaseNotFound(f"there is no lease {lease!r}; `headwater versions` lists those there are")
        self.upkeep(pipeline).unpin(lease)

    def replay(self, pipeline: str) -> Replayed:
        """Read a pipeline's dead letters once more, after what was wrong with them has been put right.

        That is an epoch of its own: with it, the rows of a letter are there and the letter is gone, or neither. The
        pipeline must not run meanwhile.

        Raises:
            ConfigError: there is no such pipeline, or it keeps no dead letters.
            EpochConflict: the pipeline is running; nothing is changed.
            SourceChanged: a CSV file is gone whose header is needed; nothing is changed.
        """
        return self._runner(pipeline).replay()

    def move(self, target: Headwater) -> dict[str, Publication]:
        """Copy every pipeline, as of its newest publication, to another backend: what was published there, by name.

        The target goes on from there, its sources from the same offsets; nothing is lost or doubled, whether or not
        this one runs meanwhile. A pipeline that has published nothing is left out: it starts anew there.

        Args:
            target: the same deployment but for its backend.

        Raises:
            ConfigError: the target holds one of the pipelines already.
            NotSupported: its engine cannot take this one's frames.
        """
        runners = zip(self.start(), target.start(), strict=True)
        with self._container.engine.working():
            moved = [move(here, there) for here, there in runners]
        return {publication.epoch.pipeline: publication for publication in moved if publication}

    def bootstrap(
        self,
        pipeline: str,
        history: Mapping[str, str | HistoryTable],
        *,
        stream_from: str | Offsets = "beginning",
        files_per_chunk: int = FILES_PER_CHUNK,
    ) -> Publication | None:
        """Load the history of a wide table in bulk, before its stream takes over; once begun, go on with the load.

        Readers see nothing of it before all of it is there. A row passes through what the rows of the stream do: the
        topic's expressions, the dead letters, the merge by its sequence.

        Args:
            pipeline: its name.
            history: for each topic that has one, a plain table in the columns of its source's schema: ``PATH`` or
                ``PATH:FORMAT``, Parquet if no format is named.
            stream_from: where the stream takes over: the ``beginning`` of what the source holds, ``now``, or offsets
                by topic. Found out before any history is read; a load that is gone on with keeps what it had.
            files_per_chunk: how many files of each topic are read before the load can be gone on with from there.

        Returns:
            The pipeline's first publication; None if the load was asked to stop before.

        Raises:
            ConfigError: the pipeline is no wide table, has been run already, or its load began with other tables.
            NotSupported: the backend does not read a table's format.
            HeadwaterError: it failed; asked for again, it goes on after the last chunk that was finished.
        """
        runner = self._runner(pipeline)
        tables = {
            topic: HistoryTable.parse(table) if isinstance(table, str) else table for topic, table in history.items()
        }
        service, source = self._container.history(pipeline, tables, files_per_chunk)
        assert isinstance(runner.source, TopicGroup)  # as the histories of wide tables alone are loaded
        stream = stream_offsets(stream_from, runner.source)
        told = History(source, {topic: str(table) for topic, table in tables.items()}, stream)
        self._load = Bootstrap.of(runner, service, told, self._report)
        with self._container.engine.working():
            return self._load.run()

    def roll(self, pipeline: str, cut: date | None = None) -> date:
        """Cut a retraction's days: those before the cut go into its past, or a past of the user's own is read anew.

        Args:
            pipeline: its name.
            cut: the first day that is not in the past; the day of the watermark if not given, today if there is none.

        Returns:
            The cut.

        Raises:
            ConfigError: the pipeline is no retraction, has published nothing yet, or its past reaches farther already.
        """
        service = self._runner(pipeline).service
        if not isinstance(service, Retraction):
            raise ConfigError(f"pipeline {pipeline!r} has no past that is cut by day; retractions have")
        latest = self._ledger(pipeline).latest
        day = cut or service.day_of((latest and latest.watermark) or self._clock.now())
        self._runner(pipeline).amend(f"roll {day}", lambda _epoch, snapshot: service.roll(day, snapshot))
        return day

    def settled(self, pipeline: str, keys: Any, *, at: Moment | None = None, as_of: Time | None = None) -> Any:
        """Which keys of a bulk merge are exact by now, though its bulk may still be loading.

        Args:
            pipeline: its name.
            keys: a DataFrame of the engine with the first column of the key at least, never null.
            at: as known at an epoch, a time or a `Label`; the newest publication if not given.
            as_of: the event time (UTC) as of which `rows` is to be read.

        Returns:
            The same DataFrame with boolean ``settled``.

        Raises:
            ConfigError: it is no bulk merge, or there is no such pipeline.
            VersionNotFound: nothing was published at `at`.
            VersionExpired: it has been cleaned away.
        """
        runner = self._runner(pipeline)
        service = runner.service
        if not isinstance(service, BulkMerge) or not isinstance(runner.source, BulkGroup):
            raise ConfigError(f"pipeline {pipeline!r} is no bulk merge: all its keys are always exact")
        snapshot = self.snapshot(pipeline, at)
        offsets = snapshot.publication.offsets if snapshot.publication else {}
        remaining = runner.source.bulk.remaining(offsets.get(BULK))
        moment = None if as_of is None else read_time(as_of)
        engine = self._container.engine
        with engine.working():
            told = service.settled(engine.take_in(keys), snapshot, remaining, moment)
        return engine.hand_out(told)

    def status(self) -> tuple[PipelineStatus, ...]:
        """Where each pipeline stands."""
        latencies = Latencies(self.deployment, self._ledger)
        return tuple(self._status(name, latencies.of(name)) for name in self.deployment.pipelines)

    def find(self, name: str) -> tuple[str, ViewSpec]:
        """The pipeline and the view that a name means; tables that the pipeline keeps come behind its views.

        Raises:
            ConfigError: there is no such pipeline or view; the message lists what there is.
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
        """Stop the engine, if this deployment has started it."""
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
        """The ledger as it is now: a run, here or elsewhere, goes on undisturbed."""
        return self._runner(pipeline).standing()

    def _frame(
        self, pipeline: str, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None, since: Moment | None
    ) -> nw.LazyFrame[Any]:
        service = self._runner(pipeline).service
        if spec not in service.views:
            return snapshot.read(f"{pipeline}.{spec.name}")
        earlier = self.snapshot(pipeline, self._before(snapshot) if since is None else since) if spec.between else None
        with self._container.engine.working():
            return service.view(spec.name, snapshot, as_of=as_of, since=earlier)

    def _before(self, snapshot: Snapshot) -> int:
        return max(_number(snapshot) - 1, -1)

    def _status(self, pipeline: str, latency: Latency) -> PipelineStatus:
        runner, latest = self._runner(pipeline), self._ledger(pipeline).latest
        try:
            lag = runner.source.lag(latest.offsets if latest else None)
        except HeadwaterError as error:
            lag = f"cannot be told: {error}"
        if runner.loading:
            lag = f"{lag}; its history is being loaded"
        with self._container.engine.working():
            snapshot = self.snapshot(pipeline)
            bookkeeping = runner.service.bookkeeping(snapshot) if latest else {}
            repeats = runner.service.repeats(snapshot) if latest else None
        letters, alarms = self._dead_letters(pipeline), tuple(self._told(self._alarms(runner, latest)))
        return PipelineStatus(pipeline, latest, lag, letters, latency, bookkeeping, alarms, repeats)

    def _told(self, alarms: Iterator[str]) -> Iterator[str]:
        """Alarms, the last one being why no more could be told, if so."""
        try:
            yield from alarms
        except HeadwaterError as error:
            yield str(error)

    def _alarms(self, runner: Runner, latest: Publication | None) -> Iterator[str]:
        if isinstance(runner.source, BulkGroup):
            bulk, done = runner.source.bulk, latest.offsets.get(BULK) if latest else None
            if bulk.repeatable:  # which chunks another process could not read shows by trying them here
                bulk.plan(done, latest.watermark if latest else None)
            yield from bulk.trouble()
        if isinstance(runner.source, ViewInputs):
            yield from runner.source.alarms(latest.offsets if latest else None)

    def _dead_letters(self, pipeline: str) -> int:
        name = dead_letter.table(pipeline)
        if name not in {spec.name for spec in self.services[pipeline].tables}:
            return 0
        with self._container.engine.working():
            (counted,) = collect_small(self.snapshot(pipeline).read(name).select(nw.len().alias("letters")))
        return int(counted["letters"])


def _number(snapshot: Snapshot) -> int:
    return snapshot.publication.epoch.number if snapshot.publication else -1


def _moment(at: Moment | None, label: str | datetime | None) -> Moment | None:
    if label is None:
        return at
    if at is not None:
        raise ConfigError("at and label both name a version: give one of them")
    return Label.parse(label) if isinstance(label, str) else Label(label)
