"""One pipeline of a deployment: its versions, its upkeep, and what only some services offer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from os import getpid
from socket import gethostname
from typing import Any

import narwhals as nw
from attrs import define, evolve, frozen

from ...domain.duration import show_duration
from ...domain.epoch.epoch import Publication
from ...domain.errors import ConfigError, RetentionTooShort, VersionNotFound, prefix_errors
from ...domain.ledger.label import Label
from ...domain.ledger.ledger import BaseSnapshot, Ledger, Snapshot
from ...domain.ledger.upkeep import Pin, Upkeep
from ...domain.ports import BaseReading, FrameEngine, PushedFrame
from ...domain.service.base import MOST_DAYS_AHEAD, ReadAt, Service
from ...domain.source.bulk import BULK
from ...domain.table.row_kind import ROW_KIND
from ...domain.table.schema import Schema
from ...domain.table.view_spec import ViewSpec
from ..document.plain import check_type
from ..read.difference import diff_spec, difference
from ..read.latency import Latency
from ..read.moments import Duration, Moment, Time, read_day, read_duration, read_moment, read_time
from ..read.status import PipelineStatus
from ..read.waiting import wait_for
from ..run import program_frames
from ..run.cut import make_cut
from ..run.loading import is_loading
from ..run.replay import ReplayResult, replay
from ..run.runner import Runner
from .in_process import InProcess
from .pipeline_status import status_of


@frozen(eq=False)
class Answer:
    """The rows of a view as a lazy frame, with the view's columns and the engine of the frame."""

    view: ViewSpec
    frame: nw.LazyFrame[Any]
    engine: FrameEngine

    @property
    def ordered(self) -> nw.LazyFrame[Any]:
        """The rows in the view's display order; a key's old row comes before its new one."""
        # A table whose versions each have their own columns lacks its key before the first one.
        there = self.view.schema.names
        by = [name for name in dict.fromkeys((*self.view.sort, *self.view.key)) if name in there]
        # "-U" is greater than "+U".
        return self.frame.sort(*by, descending=[name == ROW_KIND for name in by]) if by else self.frame


@define(eq=False)
class Pipeline(InProcess):
    """A handle on one pipeline; `Headwater.pipeline` returns it.

    Args:
        runner: runs it.
        base: reads base files only; raises `NotSupported` if the backend's tables have no log next to them.
        push_to: pushes a frame to a pipeline, and knows which pushes of the program have failed; see `Pushes`.
    """

    runner: Runner
    _base: Callable[[], BaseReading]
    _push_to: Callable[[Pipeline, Any, int | None], bool]

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.runner.pipeline

    @property
    def service(self) -> Service:
        """Its service."""
        return self.runner.service

    @property
    def engine(self) -> FrameEngine:
        """The engine of its frames."""
        return self.runner.engine

    @property
    def ledger(self) -> Ledger:
        """The current ledger, opened for reading; it does not disturb a run."""
        return self.runner.current_ledger()

    def foreach_batch(self) -> Callable[[Any, int], None]:
        """Return the function that your Structured Streaming query passes to ``writeStream.foreachBatch(…)``.

        Each batch becomes one epoch of the pipeline, whose source has ``kind = "stream"``. A batch that the query
        repeats is skipped. Keep the query's checkpoint: the batches of a query with a new or an older one are refused.

        Raises:
            ConfigError: there is no such pipeline, or its source is not of kind ``stream``.
            NotSupported: the backend has no frames of Spark.
        """
        return program_frames.function_of_batches(self.runner)

    def push(self, frame: Any, *, number: int | None = None) -> bool:
        """Make a frame the next epoch of the pipeline; see `Headwater.push`.

        Returns:
            True if this call has published an epoch; False if the number was published before.
        """
        with self.runner.turn:
            return self._push_to(self, frame, number)

    def hand_over(self, frame: PushedFrame) -> bool:
        """Make a frame the next epoch of the pipeline; see `push`, and `Source.push`."""
        return program_frames.push(self.runner, frame)

    @property
    def last_frame(self) -> tuple[int, str | None]:
        """The number and the id of the last frame that it has published; see `Source.last_frame`."""
        return program_frames.last_frame(self.runner)

    def answer(
        self,
        spec: ViewSpec,
        *,
        at: Moment | None = None,
        label: str | datetime | None = None,
        as_of: Time | None = None,
        since: Moment | None = None,
        longest: Duration | None = None,
        read_optimized: bool = False,
    ) -> Answer:
        """Return the rows of one of its views or tables; see `Headwater.view`."""
        until = None if as_of is None else read_time(as_of)
        if read_optimized and (spec.between or any(each is not None for each in (at, label, as_of, since, longest))):
            raise ConfigError(
                f"{self.name}.{spec.name}: base files belong to no single version: read them without a version, or read"
                " the view itself"
            )
        snapshot = self.snapshot(_moment(at, label))
        if read_optimized:
            snapshot = BaseSnapshot(snapshot.store, snapshot.publication, base=self._base())
        if longest is not None and snapshot.publication:
            self._check_lasts(snapshot.publication, read_duration(longest))
        frame = self._frame(spec, snapshot, until, since)
        if not spec.schema.columns:  # each version has its own
            spec = evolve(spec, schema=Schema.of(frame))
        return Answer(spec, frame, self.engine)

    def _check_lasts(self, publication: Publication, longest: timedelta) -> None:
        try:
            self.upkeep.check_lasts(publication, longest, self.service.expect)
        except RetentionTooShort as error:
            pin = f"headwater pin … {self.name} --at {publication.epoch.number} --for {show_duration(longest)}"
            raise RetentionTooShort(f"{error}: {pin}") from None

    def _frame(
        self, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None, since: Moment | None
    ) -> nw.LazyFrame[Any]:
        if spec not in self.service.views:
            if as_of is not None or since is not None:
                raise ConfigError(
                    f"{self.name}.{spec.name} is a table, which is read as it was at one version: leave the event time"
                    " and the earlier version out"
                )
            return snapshot.read(f"{self.name}.{spec.name}")
        earlier = None
        if since is not None or spec.between:
            earlier = self._before(snapshot) if since is None else self.snapshot(since)
            _check_order(earlier, snapshot)
        with self.engine.working():
            return self.service.view(spec.name, ReadAt(snapshot, as_of, earlier))

    def difference(self, spec: ViewSpec, *, after: Moment | None = None, until: Moment | None = None) -> Answer:
        """Return the difference of one of its views or tables between two publications; see `Headwater.diff`."""
        wanted = diff_spec(f"{self.name}.{spec.name}", spec)
        later = self.snapshot(until)
        earlier = self._before(later) if after is None else self.snapshot(after)
        _check_order(earlier, later)
        stored = spec not in self.runner.service.views or spec.name in self.runner.options.materialize
        table = f"{self.name}.{spec.name}" if stored else None
        with self.engine.working(), prefix_errors(f"{self.name}.{spec.name}"):
            frame = difference(self.runner.service, spec, table, earlier, later)
        if not spec.schema.columns:  # each version has its own
            wanted = evolve(wanted, schema=Schema.of(frame))
        return Answer(wanted, frame.select(*wanted.schema.names), self.engine)

    def wait_for(self, watermark: Time, *, timeout: Duration | None = None) -> Publication:
        """Wait until a pipeline's newest publication has reached a watermark. Any process may run the pipeline.

        Args:
            watermark: the event time to wait for; in UTC if it has no zone.
            timeout: the longest wait; None to wait until `stop`.

        Returns:
            That publication; read views with ``at=publication.epoch.number``.

        Raises:
            WaitTimeout: the watermark was not reached in time; the message names the watermark of the pipeline.
        """
        return wait_for(
            lambda: self.ledger.latest,
            read_time(watermark),
            complete_to=self.service.complete_to,
            clock=self.runner.clock,
            poll=self.runner.options.poll,
            timeout=None if timeout is None else read_duration(timeout),
            stopping=lambda: self.runner.stopping,
        )

    @property
    def epoch(self) -> int:
        """The number of the newest published epoch; -1 if nothing is published yet."""
        return self.ledger.next_epoch.number - 1

    @property
    def loading(self) -> bool:
        """Whether a load of the history has begun and nothing is published yet."""
        return is_loading(self.runner.ledger, self.service)

    def snapshot(self, at: Moment | None = None) -> Snapshot:
        """All tables of a pipeline as of one publication, the newest if `at` is not set.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: that version has expired.
        """
        ledger = self.ledger
        if at is None:
            return ledger.snapshot()
        moment = read_moment(at)
        if isinstance(moment, Label):
            return ledger.snapshot(ledger.as_of_label(moment, self.service.label))
        if isinstance(moment, int):
            return Snapshot(ledger.store, None) if moment == -1 else ledger.snapshot(ledger.as_of_epoch(moment))
        return ledger.snapshot(ledger.as_of_time(moment))

    def _before(self, snapshot: Snapshot) -> Snapshot:
        """The tables one publication earlier; the first one of a rebuilt pipeline has none before it."""
        publication = snapshot.publication
        return Snapshot(snapshot.store, publication and self.ledger.before(publication))

    @property
    def upkeep(self) -> Upkeep:
        """The maintenance of a pipeline's tables: compact, expire, pin, and explain why a version is kept."""
        return Upkeep(self.ledger, self.runner.keeper, self.runner.options.retention)

    def pin(self, *, at: Moment | None = None, hold: Duration, holder: str | None = None) -> Pin:
        """Keep a publication readable. Call this before a read that takes longer than the retention allows.

        Args:
            at: an epoch, a time (ISO text, datetime) or a label; the newest publication if not set.
            hold: the longest time to keep it; to renew it, pin again before it ends.
            holder: who reads, for display; this machine and process if not set.

        Returns:
            A pin to release, or to use as a context manager; read views with ``at=pin.epoch``.

        Raises:
            VersionNotFound: nothing was published at `at`.
            VersionExpired: the version has expired, or is being removed.
        """
        holder = check_type(holder or f"{gethostname()}:{getpid()}", str, "the text of a holder")
        publication = self.snapshot(at).publication
        if publication is None:
            raise VersionNotFound(f"pipeline {self.name!r} has published nothing that could be held; run it first")
        return self.upkeep.pin(publication, holder, read_duration(hold))

    def replay(self) -> ReplayResult:
        """Read a pipeline's dead letters again, after their cause has been fixed.

        This is a separate epoch. Its publication adds the rows of a dead letter and removes the dead letter, in one
        step. The pipeline must not run at the same time.

        Raises:
            ConfigError: there is no such pipeline, or it has no dead letters table.
            EpochConflict: the pipeline is running; nothing is changed.
            SourceChanged: a CSV file whose header is needed is missing; nothing is changed.
        """
        return self.runner.do(replay)

    def roll(self, cut: date | None = None) -> date:
        """Move the days before a cut into a retraction's past, or read a user-supplied past again.

        Args:
            cut: the first day after the past; if not set, the day of the watermark, or today without a watermark. It
                is at most 300 days after today.

        Returns:
            The cut.

        Raises:
            ConfigError: the pipeline is not a retraction, has published nothing, or its past reaches beyond the cut; or
                `cut` is not a date; or the cut is too far in the future.
            EpochConflict: the pipeline is running; nothing is changed.
            BadInput: a number of the user-supplied past cannot be stored as it is; nothing is changed.
        """
        default_cut = self.runner.service.default_cut
        if default_cut is None:
            raise ConfigError(f"pipeline {self.name!r} has no past that is cut by day; retractions have")
        given = None if cut is None else read_day(cut)

        def roll(runner: Runner) -> date:  # in its turn: an epoch that ends before it moves the watermark
            now = runner.clock.now()
            day = given or default_cut(runner.ledger.watermark, now)
            self._check_past(day, default_cut(None, now), "its watermark" if given is None else "the cut")
            make_cut(day, runner)
            return day

        return self.runner.do(roll)

    def _check_past(self, cut: date, today: date, what: str) -> None:
        """Raise a `ConfigError` if days that have not begun would move into the past, which could not be undone.

        The clock decides, as one record that is dated far ahead is enough to move the watermark there.
        """
        if cut.toordinal() > today.toordinal() + MOST_DAYS_AHEAD:
            raise ConfigError(
                f"pipeline {self.name!r}: {what} {cut} is in the future: today is {today}. A cut cannot be taken back;"
                f" give one (--cut DAY) that is at most {MOST_DAYS_AHEAD} days after today"
            )

    def settled(self, keys: Any, *, at: Moment | None = None, as_of: Time | None = None) -> Any:
        """Return whether keys of a bulk merge are exact already; its bulk may still be loading.

        Args:
            keys: a DataFrame of the engine with at least the first column of the key, never null.
            at: the version to read: an epoch, a time or a `Label`; the newest publication if not set.
            as_of: the event time (UTC) at which `rows` will be read.

        Returns:
            The same DataFrame with boolean ``settled``.

        Raises:
            ConfigError: the pipeline is not a bulk merge, or there is no such pipeline; or the frame lacks the column,
                or has it in another type.
            VersionNotFound: nothing was published at `at`.
            VersionExpired: that version has expired.
        """
        settled, bulk = self.runner.service.settled, self.runner.source.bulk
        if settled is None or bulk is None:
            raise ConfigError(f"pipeline {self.name!r} is not a bulk merge: all its keys are always exact")
        snapshot = self.snapshot(at)
        offsets = snapshot.publication.offsets if snapshot.publication else {}
        with self.runner.turn:
            remaining = bulk.remaining(offsets.get(BULK))
        moment = None if as_of is None else read_time(as_of)
        engine = self.engine
        with engine.working():
            answer = settled(engine.from_native(keys), snapshot, remaining, moment)
        return engine.to_native(answer)

    def status(self, latency: Latency, *, lag: bool = True) -> PipelineStatus:
        """Its status.

        Args:
            latency: expected and measured; see `Latencies`.
            lag: whether the source is asked for it, which takes seconds if its broker is down.
        """
        with self.runner.turn:  # a run in another thread may be planning its next epoch
            return status_of(self.runner, latency, lag=lag)


def _check_order(earlier: Snapshot, later: Snapshot) -> None:
    if _number(earlier) > _number(later):
        raise ConfigError(f"epoch {_number(earlier)} is later than epoch {_number(later)}: give the earlier one first")


def _number(snapshot: Snapshot) -> int:
    return snapshot.publication.epoch.number if snapshot.publication else -1


def _moment(at: Moment | None, label: str | datetime | None) -> Moment | None:
    if label is None:
        return at
    if at is not None:
        raise ConfigError("at and label both name a version: give one of them")
    return Label.parse(label) if isinstance(label, str) else Label(label)
