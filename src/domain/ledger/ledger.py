"""Publications, their snapshots, and the protocol that makes each epoch happen exactly once.

The ledger has no table of its own. A publication is stored in the metadata of its epoch's last commit. Every mark names
the commit of the previous publication, so that all publications can be found from any table's newest commit.

Order within an epoch: `begin` (rolls back what an earlier try left, unless it is the same work), `commit` for each
table, `publish` with the last one. Until `publish` has returned, readers see the previous epoch.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from ..epoch.epoch import Epoch, Mark, OffsetRange, Place, Publication
from ..errors import ConfigError, EpochConflict, VersionExpired, VersionNotFound
from ..ports import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import narwhals as nw

    from ..epoch.epoch import Tally
    from ..ports import BaseReading, Clock, Commit, VersionedStore
    from ..table.change import Change, Matching
    from .label import Label


@frozen(eq=False)
class Snapshot:
    """All tables of a pipeline at the versions of one publication (None: before the first).

    `ahead` has the versions that the current epoch has committed but not yet published.
    """

    store: VersionedStore
    publication: Publication | None
    ahead: Mapping[str, Version] = field(factory=dict)

    def version(self, table: str) -> Version | None:
        """The version of a table in this snapshot; None if it has no version yet."""
        if table in self.ahead:
            return self.ahead[table]
        found = self.publication and self.publication.tables.get(table)
        return Version(found) if found else None

    @property
    def versions(self) -> dict[str, Version]:
        """The version of each table in this snapshot; a table without a version is missing."""
        tables = self.publication.tables if self.publication else {}
        return {**{name: Version(version) for name, version in tables.items()}, **self.ahead}

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of a table in this snapshot."""
        return self.store.read(table, self.version(table), matching)

    def size(self, table: str) -> int:
        """The size of a table's files in this snapshot, in bytes; see `TableHistory.size`."""
        version = self.version(table)
        return 0 if version is None else self.store.size(table, version)

    def changes_since(self, earlier: Snapshot, table: str) -> nw.LazyFrame[Any] | None:
        """Net changes of a table from an earlier snapshot to this one; None if its version is the same."""
        before, now = earlier.version(table), self.version(table)
        return None if now is None or before == now else self.store.changes(table, before, now)


@frozen(eq=False)
class BaseSnapshot(Snapshot):
    """The base files of a pipeline's tables, independent of versions; empty before the first publication.

    Args:
        base: reads the base files.
    """

    base: BaseReading = field(kw_only=True)

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows in a table's base files."""
        exists = self.version(table) is not None
        return self.base.read_optimized(table, matching) if exists else super().read(table, matching)


@frozen
class _Published:
    """A publication, the commit that carries it, and the commit of the previous one."""

    publication: Publication
    place: Place
    previous: Place | None


@define(eq=False)
class Ledger:
    """The publications of one pipeline, read from and written with its tables' commits.

    Args:
        store: the store of the tables. `open` works without `ensure`; all other methods need every table ensured.
        pipeline: its name.
        tables: the pipeline's tables in the order of their commits; the last one is the anchor of publications.
        clock: sets the time of publications.
        writer: identifies this run; unique for each run.
        fingerprint: the fingerprint of the service's settings.
        changed: returns the reason why tables with another fingerprint cannot be continued; see `Service.changed`.
    """

    store: VersionedStore
    pipeline: str
    tables: Sequence[str]
    clock: Clock
    writer: str
    fingerprint: str
    changed: Callable[[str], str | None] = field()
    _first: int = field(init=False, default=0)
    _latest: _Published | None = field(init=False, default=None)
    _sequences: dict[str, int] = field(init=False, factory=dict)
    _orphans: dict[str, Commit] = field(init=False, factory=dict)
    _under_way: tuple[Epoch, OffsetRange, str | None] | None = field(init=False, default=None)
    _began_at: datetime | None = field(init=False, default=None)
    _ahead: dict[str, Version] = field(init=False, factory=dict)

    @changed.default
    def _any_change(self) -> Callable[[str], str | None]:
        return lambda built: None if built == self.fingerprint else "settings"

    def open(self) -> None:
        """Read the state of the pipeline. Call it before any other method, and again after a failed epoch.

        Raises:
            ConfigError: the tables were built with other settings of the service.
        """
        newest = {table: commit for table in self.tables if (commit := self._newest_marked(table))}
        self._latest = self._find_latest(newest)
        self._under_way, self._ahead = None, {}
        self._sequences = {table: _mark(commit).sequence for table, commit in newest.items()}
        self._orphans = {table: commit for table, commit in newest.items() if self._is_unpublished(table, commit)}
        if self.latest and (changed := self.changed(self.latest.fingerprint)):
            raise ConfigError(
                f"pipeline {self.pipeline!r} was built with other {changed}; its tables cannot be continued with these:"
                " give the pipeline another name, or remove its folder to rebuild it"
            )

    @property
    def latest(self) -> Publication | None:
        """The latest publication; None before the first."""
        return self._latest.publication if self._latest else None

    @property
    def next_epoch(self) -> Epoch:
        """The epoch after the latest publication."""
        return Epoch(self.pipeline, self.latest.epoch.number + 1 if self.latest else self._first)

    @property
    def unfinished(self) -> OffsetRange | None:
        """The range of an epoch that was begun but not published, so that a restart can repeat it; None if none."""
        begun = (mark for mark in map(_mark, self._orphans.values()) if mark.epoch == self.next_epoch)
        return next((mark.offsets for mark in begun if not mark.rolls_back and not mark.task), None)

    def snapshot(self, publication: Publication | None = None) -> Snapshot:
        """The tables as of a publication; by default the latest."""
        return Snapshot(self.store, publication or self.latest)

    def publications(self) -> Iterator[Publication]:
        """All publications that can still be found, newest first.

        Raises:
            VersionExpired: when the iterator goes back beyond the tables' history.
        """
        found = self._latest
        while found:
            yield found.publication
            found = self._at(found.previous) if found.previous else None

    def known(self, count: int | None = None) -> list[Publication]:
        """The publications that can still be found, newest first, at most `count` of them (None: all)."""
        found: list[Publication] = []
        with suppress(VersionExpired):  # where the tables' history ends
            for publication in islice(self.publications(), count):
                found.append(publication)  # noqa: PERF402 - one by one, to keep those before the error
        return found

    def as_of_epoch(self, number: int) -> Publication:
        """The publication of an epoch.

        Raises:
            VersionNotFound: the pipeline has no such epoch (yet).
            VersionExpired: it has expired.
        """
        end = f"the newest is {self.latest.epoch.number}" if self.latest else "none is published yet"
        if self.latest and number < self.latest.epoch.number:
            for publication in self.publications():
                if publication.epoch.number == number:
                    return publication
                end = f"the oldest is {publication.epoch.number}"
        elif self.latest and number == self.latest.epoch.number:
            return self.latest
        raise VersionNotFound(f"pipeline {self.pipeline!r} has no epoch {number}; {end}")

    def as_of_time(self, moment: datetime) -> Publication:
        """The latest publication made at or before a time.

        Raises:
            VersionNotFound: the first publication was made later.
            VersionExpired: it has expired.
        """
        for publication in self.publications():
            if publication.published_at <= moment:
                return publication
        raise VersionNotFound(f"pipeline {self.pipeline!r} had published nothing by {moment.isoformat()}")

    def as_of_label(self, label: Label, of: Callable[[Publication], Label | None]) -> Publication:
        """The latest publication with a label.

        Args:
            label: the label.
            of: returns the label of a publication; never later than its watermark.

        Raises:
            VersionNotFound: no publication has the label (yet); the message names its neighbours.
            VersionExpired: it has expired.
        """
        newer = None
        for publication in self.publications():
            if of(publication) == label:
                return publication
            if publication.watermark is None or publication.watermark < label.watermark:  # watermarks never go back
                break
            newer = publication
        else:
            publication = None
        near = (f"epoch {each.epoch.number} has {of(each) or 'none'}" for each in (publication, newer) if each)
        raise VersionNotFound(
            f"pipeline {self.pipeline!r} has no version of label {label}; {'; '.join(near) or 'none is published yet'}"
        )

    def adopt(self, publication: Publication) -> Epoch:
        """Start this empty ledger with an epoch that another store has published, when a pipeline moves.

        An unfinished earlier try is resumed. Afterwards commit an overwrite of every table, then publish.

        Raises:
            ConfigError: this ledger already has publications.
            EpochConflict: as in `begin`.
        """
        if self.latest:
            raise ConfigError(
                f"pipeline {self.pipeline!r} exists there already, at epoch {self.latest.epoch.number}: move to another"
                " path, or remove its folder"
            )
        self._first = publication.epoch.number
        return self.begin(OffsetRange(None, publication.offsets))

    def begin(self, offsets: OffsetRange, task: str | None = None) -> Epoch:
        """Start the next epoch over a range. Commits that an earlier try made for other work are rolled back first.

        Args:
            offsets: the range to read.
            task: the name of a task that it does instead of reading; all commits of an earlier try are rolled back.

        Raises:
            EpochConflict: another run is writing this pipeline.
        """
        epoch = self.next_epoch
        self._under_way, self._began_at, self._ahead = (epoch, offsets, task), self.clock.now(), {}
        for table, commit in self._orphans.items():
            # The anchor's commit carries the publication. Without one, it was made when another table was the anchor.
            same = not task and _mark(commit).holds(epoch, offsets, self.fingerprint)
            if same and table != self.tables[-1]:
                self._ahead[table] = commit.version
            else:
                self._take_back(table)
        self._orphans = {}
        return epoch

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
            EpochConflict: another writer has committed to the table.
        """
        anchor, mark = self.tables[-1], self._next_mark(self.tables[-1])
        before = dict(self.latest.tables) if self.latest else {}
        if watermarks is None:
            watermarks = self.latest.watermarks if self.latest else {}
        publication = Publication(
            mark.epoch,
            {table: version for table, version in (before | self._ahead).items() if table != anchor},
            mark.offsets.until,
            watermark,
            self.clock.now(),
            self.fingerprint,
            watermarks,
            self._began_at,
            tally,
        )
        version = self.store.commit(anchor, change, evolve(mark, publication=publication))
        self._sequences[anchor] = mark.sequence
        self._latest = _published(anchor, version, evolve(mark, publication=publication))
        self._under_way, self._ahead = None, {}
        assert self._latest is not None
        return self._latest.publication

    def _next_mark(self, table: str) -> Mark:
        if self._under_way is None:
            raise EpochConflict(f"pipeline {self.pipeline!r}: no epoch has begun")
        epoch, offsets, task = self._under_way
        return Mark(
            epoch,
            offsets,
            self._sequences.get(table, 0) + 1,
            self.writer,
            self.fingerprint,
            self.tables[-1],
            self._latest.place if self._latest else None,
            task=task,
        )

    def _take_back(self, table: str) -> None:
        mark = evolve(self._next_mark(table), rolls_back=True)
        self.store.rollback(table, self.snapshot().version(table), mark)
        self._sequences[table] = mark.sequence

    def _is_unpublished(self, table: str, commit: Commit) -> bool:
        """Whether a table's newest marked commit has other rows than the latest publication."""
        pinned, mark = self.snapshot().version(table), _mark(commit)
        if not mark.rolls_back:
            return commit.version != pinned
        # A writer that lost a race may have rolled back to a publication that was no longer the latest.
        try:
            restored = self._at(mark.previous) if mark.previous else None
        except VersionExpired:  # the restored version is unknown by now; a further rollback is always right
            return True
        return Snapshot(self.store, restored.publication if restored else None).version(table) != pinned

    def _newest_marked(self, table: str) -> Commit | None:
        return next((commit for commit in self.store.versions(table) if commit.mark), None)

    def _find_latest(self, newest: Mapping[str, Commit]) -> _Published | None:
        """The latest publication, from the newest marked commit of each table."""
        if not newest:
            return None
        marks = [_mark(commit) for commit in newest.values()]
        last = max(mark.epoch.number for mark in marks)
        leading = [mark for mark in marks if mark.epoch.number == last]
        # Commits of one epoch may name two anchors, if a table was added or removed before it was published.
        for anchor in dict.fromkeys(mark.anchor for mark in leading):
            ending = newest.get(anchor) or self._newest_marked(anchor)
            if ending and _mark(ending).publication and _mark(ending).epoch.number >= last:
                return _published(anchor, ending.version, _mark(ending))
        previous = leading[0].previous
        return self._at(previous) if previous else None

    def _at(self, place: Place) -> _Published | None:
        version = Version(place.version)
        return _published(place.table, version, _mark(self.store.version(place.table, version)))


def _mark(commit: Commit) -> Mark:
    if commit.mark is None:
        raise EpochConflict(f"version {commit.version} carries no mark: it was not made by Headwater")
    return commit.mark


def _published(table: str, version: Version, mark: Mark) -> _Published | None:
    if mark.publication is None:
        return None
    publication = evolve(mark.publication, tables={**mark.publication.tables, table: version})
    return _Published(publication, Place(table, version), mark.previous)
