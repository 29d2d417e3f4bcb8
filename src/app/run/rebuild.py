"""Rebuilds a pipeline: a new generation of its tables is computed beside the current one, and then switched to.

What was read until now is read again by the edited settings. Meanwhile runs and readers with the former settings go on.
The switch is one commit; see `headwater.domain.ledger.generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from attrs import define, evolve, field, frozen

from ...domain.epoch.epoch import OffsetRange, Publication
from ...domain.errors import (
    ConfigError,
    HeadwaterError,
    SchemaConflict,
    SinkChanged,
    SourceChanged,
    TableDamaged,
    add_place,
)
from ...domain.ledger.generation import Generations, read_generations, record_generations
from ...domain.ledger.ledger import Ledger, find_no_change
from ...domain.ledger.record import Recorder
from .beside import work_beside
from .cut import make_cut
from .inputs import holder_of
from .loading import check_loaded, check_no_history
from .rounds import run_all
from .runner import Runner


@frozen
class Rebuilt:
    """What a rebuild has led to.

    Args:
        generation: the number of the current generation.
        former: the number of the generation that was current before; None if nothing was switched.
        publication: the newest publication of the current generation.
        cancelled: the number of the unfinished generation that was given up; None if there was none.
    """

    generation: int
    former: int | None
    publication: Publication | None
    cancelled: int | None = None


def describe_unfinished(runner: Runner) -> str:
    """What is to be known of a rebuild that has not ended, for display; empty if there is none."""
    there = read_generations(runner.store, runner.pipeline)
    if there.building is None:
        return ""
    stopped = ", and runs with the former settings are stopped" if there.closing else ""
    return f"generation {there.newest} is being built by `headwater rebuild`{stopped}"


@define(eq=False)
class Rebuild:
    """The rebuild of one pipeline. One that was interrupted is resumed, if the settings are the same.

    Args:
        runner: of the pipeline, with the edited settings; its tables are those of the current generation.
        make_twin: creates the runner of a generation that is being built.
        settings: a digest of the edited settings, with the backend.
        inputs: the runners of the pipelines that it reads.
    """

    runner: Runner
    make_twin: Callable[[int], Runner]
    settings: str
    inputs: Sequence[Runner]
    _old: Ledger = field(init=False)
    _there: Generations = field(init=False)

    def run(self, *, again: bool = False) -> Rebuilt | None:
        """Build the pipeline again, and switch to the new tables when they have reached the current ones.

        Args:
            again: whether to build again what was rebuilt with these settings already.

        Returns:
            What is current now; None if the rebuild was stopped first.

        Raises:
            ConfigError: there is nothing to rebuild, or the pipeline was bootstrapped, or is being so.
            NotSupported: a program hands over its rows, so they cannot be read again.
            SourceChanged: the source no longer has all that was read; nothing was written, or the old tables stay.
            SinkChanged: the pipeline publishes to a topic that has rows of the old tables; nothing was written.
            EpochConflict: another process rebuilds the pipeline.
            HeadwaterError: an epoch failed; the old tables stay, and the call can be repeated.
        """
        self._open()
        if not again and self._is_built():
            return self._current()
        twin = self._begin()
        self._drain(twin)
        with self._closing():
            while not twin.stopping:
                if self._catch_up(twin):
                    return self._switch(twin)
        return None

    def cancel(self) -> Rebuilt:
        """Give up a rebuild that has not ended; its tables are left behind."""
        self._open()
        if self._there.building is None:
            return self._current()
        unfinished = self._there.newest
        self._abandon(self._there.cancel())
        return evolve(self._current(), cancelled=unfinished)

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        runner = self.runner
        self._there = read_generations(runner.store, runner.pipeline)
        names = [spec.name for spec in runner.tables]
        self._old = Ledger(runner.store, runner.pipeline, names, runner.clock, find_no_change)
        self._old.open()

    def _latest(self) -> Publication:
        """The newest publication of the current generation."""
        latest = self._old.latest
        if latest is None:
            raise ConfigError(
                f"pipeline {self.runner.pipeline!r} has published nothing in the tables that it has now, so there is"
                " nothing to rebuild: `headwater run` builds them"
            )
        return latest

    def _is_built(self) -> bool:
        """Whether the current tables were built with these settings, and a run continues them: others may have run."""
        if self._there.built != self.settings or self._there.building is not None:
            return False
        try:
            self.runner.open_ledger(self.runner.tables)
        except (ConfigError, SchemaConflict, TableDamaged):  # their remedy is a rebuild
            return False
        return True

    def _current(self) -> Rebuilt:
        return Rebuilt(self._there.current, None, self._old.latest)

    def _begin(self) -> Runner:
        """Resume what was begun with these settings, or begin a new generation if the source has all records."""
        check_loaded(self._old, self.runner.service)
        latest = self._latest()
        self._check_sink()
        resumed = self._there.building == self.settings
        twin = self._twin(latest) if resumed else None
        if twin is None or twin.ledger.latest is None:
            check_no_history(self._old, self.runner.service, latest)
            with add_place(self.runner.options.source_place):
                self.runner.source.check_complete(latest.beginning, latest.offsets)
        if twin is None:
            self._abandon(self._there.begin(self.settings))
            twin = self._twin(latest)
        return twin

    def _twin(self, latest: Publication) -> Runner:
        """The runner of the newest generation; see `_publish_first` for the numbers that readers see of it."""
        twin = self.make_twin(self._there.newest)
        twin.stop_asked, twin.first_epoch = self.runner.stop_asked, latest.epoch.number + 1
        return twin

    def _drain(self, twin: Runner) -> None:
        """Read all that the source has; what the current generation had read before is then in the new one."""
        with work_beside([twin]):
            run_all([twin], until_idle=True)

    def _catch_up(self, twin: Runner) -> bool:
        """Read what is new; returns whether nothing was published in the current generation meanwhile."""
        reached = self._latest().epoch.number
        self._drain(twin)
        self._make_cut(twin)
        self._old.open()
        return not twin.stopping and self._latest().epoch.number == reached

    def _make_cut(self, twin: Runner) -> None:
        """Make the cut of a user-supplied past again: the source has no row of that past."""
        given = twin.service.given_cut
        if given is None or twin.ledger.latest is None:
            return
        with self.runner.engine.working():
            self.runner.store.ensure(given.table, self._old.snapshot().versions)
            there, made = given.read(self._old.snapshot()), given.read(twin.ledger.snapshot())
        if there is not None and there != made:
            twin.do(partial(make_cut, there))

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Keep runs of the current generation from publishing; they may go on if the switch does not come about."""
        self._record(self._there.close())
        try:
            yield
        except HeadwaterError:
            self._there = read_generations(self.runner.store, self.runner.pipeline)
            self._reopen()
            raise
        self._reopen()

    def _reopen(self) -> None:
        if self._there.closing:
            self._record(self._there.close(closing=False))

    def _switch(self, twin: Runner) -> Rebuilt:
        twin.reopen()
        published = twin.ledger.latest
        if published is None:
            raise SourceChanged(
                f"pipeline {self.runner.pipeline!r}: its source has nothing to read ({twin.source.lag(None)}), so the"
                " old tables stay"
            )
        self._check_sink()
        latest = self._latest()
        read, again = (OffsetRange(each.beginning, each.offsets) for each in (latest, published))
        twin.source.check_rebuilt(read, again)
        published, former = self._publish_first(twin, latest), self._there.current
        self._record(self._there.switch(published.epoch.number))
        return Rebuilt(self._there.current, former, published)

    def _publish_first(self, twin: Runner, latest: Publication) -> Publication:
        """Publish the first epoch that readers of the new tables may ask for, which has the rows of the one before.

        No epoch of the old tables has its number. A run that had passed its check just before they were closed may
        still have published one after the latest.
        """
        number = latest.epoch.number + 2
        twin.do(lambda runner: runner.amend("rebuilt", runner.service.renumber, at_least=number))
        twin.reopen()
        published = twin.ledger.latest
        assert published is not None
        return published

    def _record(self, after: Generations) -> None:
        runner = self.runner
        recorder = Recorder(runner.store, runner.clock, runner.writer)
        with runner.engine.working():
            record_generations(recorder, runner.pipeline, self._there, after)
        self._there = after

    def _abandon(self, after: Generations) -> None:
        """Record that an unfinished rebuild is given up, if there is one, and release what it has leased."""
        abandoned = self._there
        self._record(after)
        if abandoned.building is not None:
            for each in self.inputs:
                each.upkeep.release(holder_of(self.runner.pipeline, abandoned.newest), keep=())

    def _check_sink(self) -> None:
        """Check that the topic that the pipeline publishes to has no rows of the old tables."""
        publisher = self.runner.publisher
        if publisher and (held := publisher.sink.published()) is not None:
            raise SinkChanged(
                f"pipeline {self.runner.pipeline!r}: its topic has the rows of the old tables up to epoch {held.epoch},"
                " and would get no difference to the new ones: set publish.topic to a new topic, which gets all rows"
                " of the view"
            )
