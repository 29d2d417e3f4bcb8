"""The protocol that makes each epoch of a pipeline happen exactly once.

Order within an epoch: `begin` (rolls back what an earlier try left, unless it is the same work with the same settings),
`record_rows` (rolls it back if it has read another number of rows), `commit` for each table, `publish` with the last
one. Until `publish` has returned, readers see the previous epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from attrs import define, evolve, field

from ..epoch.epoch import Epoch, Mark, OffsetRange, Offsets, Publication, Tally, add_beginnings, add_settings
from ..errors import ConfigError, EpochConflict, VersionExpired
from ..ports import Commit, Version
from ..table.change import Change
from .ledger import Ledger, Snapshot, mark_of, published_by
from .shortcuts import Shortcuts


@define(eq=False)
class LedgerWriter(Ledger):
    """A ledger that publishes epochs, with the commits of the pipeline's tables.

    Args:
        fingerprint: the fingerprint of the service's settings.
        writer: identifies this run; unique for each run.
        engine_name: the engine that makes the commits, if the deployment chooses one for each epoch.
        fingerprint_after: returns the fingerprint to record after an epoch with the given one; see `Edits`. If None,
            `fingerprint` is recorded.
        expected: the number that the next epoch must have, because this run has made the one before; None for any.
        first: the number of the first epoch.
        settings: the digest of all settings that the rows depend on; see `Mark`. None where there is nothing to repeat.
        sink_epoch: returns the newest epoch that the sink is known to hold; None if there is no sink.
        copies: whether this is the move that copies the pipeline to these tables; any other work waits for its end.
    """

    fingerprint: str
    writer: str
    engine_name: str | None = None
    fingerprint_after: Callable[[str], str] | None = None
    expected: int | None = None
    first: int = 0
    settings: str | None = None
    sink_epoch: Callable[[], int | None] | None = None
    copies: bool = False
    _sequences: dict[str, int] = field(init=False, factory=dict)
    _orphans: dict[str, Commit] = field(init=False, factory=dict)
    _under_way: tuple[Epoch, OffsetRange, str | None] | None = field(init=False, default=None)
    _began_at: datetime | None = field(init=False, default=None)
    _ahead: dict[str, Version] = field(init=False, factory=dict)
    _adopted: Publication | None = field(init=False, default=None)
    _is_copied: bool = field(init=False, default=False)
    _rows: int | None = field(init=False, default=None)
    _earlier_rows: set[int | None] = field(init=False, factory=set)
    """The numbers of rows that an earlier try of the epoch has read, as far as its commits are kept."""
    _shortcuts: Shortcuts = field(init=False)

    @_shortcuts.default
    def _default_shortcuts(self) -> Shortcuts:
        return Shortcuts(self._at)

    def open(self) -> None:
        """Read the state of the pipeline, and find what an earlier try has left; see `Ledger.open`.

        Raises:
            TableDamaged: a table lacks the version of it that is published.
        """
        super().open()
        self.check_there()
        self._shortcuts.restart()
        self._under_way, self._ahead = None, {}
        self._sequences = {table: mark_of(commit).sequence for table, commit in self._newest.items()}
        self._orphans = {table: commit for table, commit in self._newest.items() if self._is_unpublished(table, commit)}

    @property
    def next_epoch(self) -> Epoch:
        """The epoch after the latest publication; before that, the first one."""
        return super().next_epoch if self.latest else Epoch(self.pipeline, self.first)

    @property
    def unfinished(self) -> OffsetRange | None:
        """The range of an epoch that was begun but not published, so that a restart can repeat it; None if none.

        Also None if its settings differ from the present ones, because these may read another range.
        """
        return self._begun.offsets if self._begun else None

    @property
    def begun_by(self) -> str | None:
        """The engine that has begun the `unfinished` epoch, if its mark names it."""
        return self._begun.engine if self._begun else None

    @property
    def _begun(self) -> Mark | None:
        """The mark of a commit of the unfinished epoch."""
        begun = (mark for mark in map(mark_of, self._orphans.values()) if mark.epoch == self.next_epoch)
        mine = (mark for mark in begun if mark.fits(self.settings))
        return next((mark for mark in mine if not mark.rolls_back and not mark.task), None)

    def adopt(self, publication: Publication) -> Epoch:
        """Start this empty ledger with an epoch that another store has published, when a pipeline moves.

        An unfinished earlier try is resumed. Afterwards commit an overwrite of every table, then publish.

        Raises:
            ConfigError: this ledger already has publications.
            EpochConflict: as in `begin`.
        """
        self.check_empty()
        self._adopted = publication
        return self._begin(Epoch(self.pipeline, publication.epoch.number), OffsetRange(None, publication.offsets))

    def check_empty(self) -> None:
        """Check that the pipeline has published nothing here.

        Raises:
            ConfigError: it has.
        """
        if self.latest:
            raise ConfigError(
                f"pipeline {self.pipeline!r} exists there already, at epoch {self.latest.epoch.number}: move to another"
                " path, or remove its folder"
            )

    def begin(self, offsets: OffsetRange, task: str | None = None, at_least: int = 0) -> Epoch:
        """Start the next epoch over a range. Commits that an earlier try made for other work are rolled back first.

        Args:
            offsets: the range to read.
            task: the name of a task that it does instead of reading; all commits of an earlier try are rolled back.
            at_least: the smallest number that the epoch may have; numbers between are left out.

        Raises:
            EpochConflict: another run is writing this pipeline.
            UnfinishedMove: a move to these tables has not ended.
        """
        return self._begin(Epoch(self.pipeline, max(self.next_epoch.number, at_least)), offsets, task)

    def _begin(self, epoch: Epoch, offsets: OffsetRange, task: str | None = None) -> Epoch:
        self.check_expected()
        if not self._is_copied:  # asked once: a move begins only where nothing is published
            self._check_copied()
            self._is_copied = True
        self._under_way, self._began_at, self._ahead = (epoch, offsets, task), self.clock.now(), {}
        self._rows, self._earlier_rows = None, set()
        work = (epoch, offsets, self._fingerprint_so_far, self.engine_name, self.settings)
        for table, commit in self._orphans.items():
            # The anchor's commit carries the publication. Without one, it was made when another table was the anchor.
            same = not task and mark_of(commit).holds(*work)
            if same and table != self.tables[-1]:
                self._ahead[table] = commit.version
                self._earlier_rows.add(mark_of(commit).rows)
            else:
                self._take_back(table)
        self._orphans = {}
        return epoch

    def check_expected(self) -> None:
        """Check that the next epoch has the `expected` number.

        Raises:
            EpochConflict: another run has published since.
        """
        expected, self.expected = self.expected, None
        if expected not in {None, self.next_epoch.number}:
            raise EpochConflict(
                f"pipeline {self.pipeline!r}: epoch {expected} was to be made, but another run has published it;"
                " nothing was changed. Let one run at a time write a pipeline"
            )

    def record_rows(self, rows: int) -> None:
        """Record how many rows the epoch has read, dead letters included; call it before the epoch's first commit.

        Commits of an earlier try that has read another number are taken back. The source has lost records since, as a
        topic does that is compacted, and two readings are never mixed.
        """
        if self._earlier_rows - {None, rows}:
            for table in self._ahead:
                self._take_back(table)
            self._ahead = {}
        self._rows = rows

    def ahead(self) -> Snapshot:
        """The latest publication, with the tables that the current epoch has committed so far."""
        return Snapshot(self.store, self.latest, dict(self._ahead))

    def commit(self, table: str, change: Change) -> Version:
        """Commit one table's part of the epoch, unless an earlier try has committed it already.

        Raises:
            EpochConflict: another writer has committed to the table.
        """
        if table not in self._ahead:
            mark = self._next_mark(table)
            self._ahead[table] = self.store.commit(table, change, mark)
            self._sequences[table] = mark.sequence
        return self._ahead[table]

    def publish(
        self,
        change: Change,
        watermark: datetime | None,
        watermarks: Mapping[str, datetime] | None = None,
        tally: Tally | None = None,
    ) -> Publication:
        """Commit the last table's part together with the publication.

        Args:
            change: the change of the last table.
            watermark: see `Publication`.
            watermarks: see `Publication`; if None, they stay as they were.
            tally: see `Publication`.

        Raises:
            EpochConflict: another writer has committed to the table, or a rebuild is about to switch to other tables.
            PipelineRebuilt: a rebuild has switched to other tables.
            UnfinishedMove: a move to these tables has begun.
        """
        anchor, mark = self.tables[-1], self._next_mark(self.tables[-1])
        latest = self.latest.tables if self.latest else {}
        # A table that is no longer declared stays behind, so it must start empty if it is declared again.
        before = {table: latest[table] for table in self.tables if table in latest}
        if watermarks is None:
            watermarks = self.latest.watermarks if self.latest else {}
        publication = Publication(
            mark.epoch,
            {table: version for table, version in (before | self._ahead).items() if table != anchor},
            mark.offsets.until,
            watermark,
            self.clock.now(),
            mark.fingerprint,
            watermarks,
            self._began_at,
            tally,
            self._beginning(mark),
            self._settings_so_far,
            self._sink_epoch,
        )
        shortcut = self._shortcuts.find(self._latest, mark.epoch.number)
        mark = evolve(mark, publication=publication, shortcut=shortcut)
        self.store.check_current(self.pipeline, writes=True)
        if self.latest is None:  # a move may have begun since this epoch did
            self._check_copied()
        version = self.store.commit(anchor, change, mark)
        self._sequences[anchor] = mark.sequence
        self._latest = published_by(anchor, version, mark)
        self._under_way, self._ahead = None, {}
        assert self._latest is not None
        self._shortcuts.add(self._latest, shortcut)
        return self._latest.publication

    def _check_copied(self) -> None:
        if not self.copies:
            super()._check_copied()

    def _beginning(self, mark: Mark) -> Offsets | None:
        """The offsets after which each part of the source has begun to be read; see `Publication`."""
        before, after = self.latest or self._adopted, mark.offsets.after
        return add_beginnings(before.beginning, before.offsets, after) if before else after

    @property
    def _fingerprint_so_far(self) -> str:
        """The fingerprint of the next epoch; rows that are adopted have that of before, too."""
        before = self.latest or self._adopted
        return self.fingerprint_after(before.fingerprint) if before and self.fingerprint_after else self.fingerprint

    @property
    def _settings_so_far(self) -> str | None:
        """The digest of the settings of all epochs up to the next one; rows that are adopted have those of before."""
        if self.latest:
            return add_settings(self.latest.settings, self.settings)
        return self._adopted.settings if self._adopted else self.settings

    @property
    def _sink_epoch(self) -> int | None:
        """See `Publication`; until the sink was asked, as of the latest publication."""
        if self.sink_epoch is None:
            return None
        known = self.sink_epoch()
        return self.latest.sink_epoch if known is None and self.latest else known

    def _next_mark(self, table: str) -> Mark:
        if self._under_way is None:
            raise EpochConflict(f"pipeline {self.pipeline!r}: no epoch has begun")
        epoch, offsets, task = self._under_way
        return Mark(
            epoch,
            offsets,
            self._sequences.get(table, 0) + 1,
            self.writer,
            self._fingerprint_so_far,
            self.tables[-1],
            self._latest.place if self._latest else None,
            task=task,
            engine=self.engine_name,
            settings=self.settings,
            rows=self._rows,
        )

    def _take_back(self, table: str) -> None:
        mark = evolve(self._next_mark(table), rolls_back=True)
        self.store.rollback(table, self.snapshot().version(table), mark)
        self._sequences[table] = mark.sequence

    def _is_unpublished(self, table: str, commit: Commit) -> bool:
        """Whether a table's newest marked commit has other rows than the latest publication."""
        pinned, mark = self.snapshot().version(table), mark_of(commit)
        if not mark.rolls_back:
            return commit.version != pinned
        # A writer that lost a race may have rolled back to a publication that was no longer the latest.
        try:
            restored = self._at(mark.previous) if mark.previous else None
        except VersionExpired:  # the restored version is unknown by now; a further rollback is always right
            return True
        return Snapshot(self.store, restored.publication if restored else None).version(table) != pinned
