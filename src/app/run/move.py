"""Moves pipelines: copies their tables as of one publication to another store, which resumes from their offsets.

Before the first row is copied, the target gets a mark that names the pipelines (`headwater.domain.ledger.move_record`).
While it has the mark, they are not run there, and those that are not complete are not read. The last table of a
pipeline is copied together with its publication, so a pipeline that has one there is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing

from attrs import frozen

from ...domain.epoch.epoch import Publication
from ...domain.errors import ConfigError, NotSupported
from ...domain.ledger.ledger import Snapshot
from ...domain.ledger.move_record import UnderWay, read_move, record_move
from ...domain.ledger.record import Recorder
from ...domain.ledger.writer import LedgerWriter
from ...domain.table.change import Change
from .move_leases import MoveLeases
from .runner import Runner


def move(pairs: Iterable[tuple[Runner, Runner]], source: str, place: str) -> list[Publication]:
    """Copy pipelines as of their newest publications, and return the copies; one that has none is not copied.

    The source may keep running: leases keep what is copied until it is, and nothing else is written there. A move that
    was interrupted is resumed. Older versions are not copied.

    Args:
        pairs: for each pipeline its runner, and the one of the target.
        source: the place of the source's tables, for display; a move is resumed only from the same place.
        place: that of the target's tables, for display; it names the holder of the leases.

    Raises:
        ConfigError: the target already has one of the pipelines, or an unfinished move from another place.
        NotSupported: the target's engine cannot read the frames of the source's engine.
        EpochConflict: another process writes the target.
    """
    with closing(MoveLeases(f"move to {place}")) as leases:
        return _move({each.pipeline: _Copy.of(each, to, leases) for each, to in pairs if _latest(each)}, source)


def _move(copies: Mapping[str, _Copy], source: str) -> list[Publication]:
    if not copies:
        return []
    target = next(iter(copies.values())).target
    recorder = Recorder(target.store, target.clock, target.writer)
    begun = _check_target(target, source, copies)
    wanted = begun.with_more(source, {name: each.published.epoch.number for name, each in copies.items()})
    with target.engine.working():
        if wanted != begun:
            record_move(recorder, begun, wanted)
    made = [each.make() for each in copies.values()]
    with target.engine.working():
        record_move(recorder, wanted, wanted.without(copies))
    return made


def _latest(runner: Runner) -> Publication | None:
    with runner.engine.working():
        return runner.current_ledger().latest


def _check_target(target: Runner, source: str, copies: Mapping[str, _Copy]) -> UnderWay:
    """Return the move that is to be resumed; raise the errors of `move`, before anything is written."""
    with target.engine.working():
        begun = read_move(target.store)
    if begun.pipelines and begun.source != source:
        raise ConfigError(
            f"a move from {begun.source} to these tables has not ended, and this one is from {source}: finish the other"
            " one first, or move to another path"
        )
    for name, each in copies.items():
        each.check_target(begun.pipelines.get(name))
    return begun


@frozen(eq=False)
class _Copy:
    """The copy of one pipeline.

    Args:
        target: the runner of the target.
        snapshot: the tables of the source, as of `published`.
        published: the publication that is copied.
        source: the runner of the source.
        leases: those of the move.
    """

    target: Runner
    snapshot: Snapshot
    published: Publication
    source: Runner
    leases: MoveLeases

    @classmethod
    def of(cls, source: Runner, target: Runner, leases: MoveLeases) -> _Copy:
        """The copy of the newest publication; the source has one.

        Raises:
            NotSupported: see `move`.
        """
        if type(source.engine) is not type(target.engine):
            raise NotSupported(
                "moving", "a store on another engine", "run the pipeline there from the beginning instead"
            )
        snapshot = leases.pin_newest(source)
        assert snapshot.publication is not None
        return cls(target, snapshot, snapshot.publication, source, leases)

    def check_target(self, begun_at: int | None) -> None:
        """Check that the target has nothing of the pipeline but what this move has copied.

        Args:
            begun_at: the epoch of the source when the move began; None if it has not begun. A publication of an earlier
                epoch is not the copy, but was made by a run at the same time.

        Raises:
            ConfigError: it has.
        """
        ledger = self._open()
        if begun_at is None or (ledger.latest and ledger.latest.epoch.number < begun_at):
            ledger.check_empty()

    def make(self) -> Publication:
        """Copy the tables, unless an earlier try has done so, and return the publication of the copy."""
        ledger = self._open()
        published = ledger.latest or self._copy(ledger)
        with self.source.engine.working():
            self.leases.release(self.source.pipeline)
        return published

    def _copy(self, ledger: LedgerWriter) -> Publication:
        with self.source.engine.working():
            ledger.adopt(self.published)
            *others, anchor = ledger.tables
            for table in others:
                ledger.commit(table, self._whole(table))
            published = self.published
            return ledger.publish(self._whole(anchor), published.watermark, published.watermarks, published.tally)

    def _whole(self, table: str) -> Change:
        self.leases.renew()
        return Change(overwrite=self.snapshot.read(table))

    def _open(self) -> LedgerWriter:
        # A view that was materialized only now has no version yet: the target's first epoch fills its table.
        tables = [spec for spec in self.target.tables if self.snapshot.version(spec.name) is not None]
        with self.target.engine.working():
            return self.target.open_ledger(tables, copies=True)
