"""Publications, the snapshots they pin, and the protocol that makes an epoch happen exactly once.

The ledger has no table of its own: a publication rides in the metadata of its epoch's last commit, and every mark names
where the publication before it is found, so that the chain can be walked from any table's newest commit.

Order within an epoch: `begin` (takes back what an earlier try left, unless it is the same work), `commit` for each
table, `publish` with the last. Readers see the epoch before until `publish` has returned.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from .epoch import Epoch, Mark, OffsetRange, Place, Publication
from .errors import ConfigError, EpochConflict, VersionExpired, VersionNotFound
from .ports import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import narwhals as nw

    from .change import Change, Matching
    from .epoch import Tally
    from .label import Label
    from .ports import BaseReading, Clock, Commit, TableStore


@frozen(eq=False)
class Snapshot:
    """All tables of a pipeline, pinned at the versions of one publication (None: before the first).

    `ahead` names versions of the epoch under way that are committed but not yet published.
    """

    store: TableStore
    publication: Publication | None
    ahead: Mapping[str, Version] = field(factory=dict)

    def version(self, table: str) -> Version | None:
        """The version that a table is pinned at; None if it holds nothing yet."""
        if table in self.ahead:
            return self.ahead[table]
        found = self.publication and self.publication.tables.get(table)
        return Version(found) if found else None

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of a table at the pinned version."""
        return self.store.read(table, self.version(table), matching)

    def size(self, table: str) -> int:
        """How large the files of a table are at the pinned version, in bytes; see `TableStore.size`."""
        version = self.version(table)
        return 0 if version is None else self.store.size(table, version)

    def changes_since(self, earlier: Snapshot, table: str) -> nw.LazyFrame[Any] | None:
        """Net changes of a table from an earlier snapshot to this one; None if it was not committed in between."""
        before, now = earlier.version(table), self.version(table)
        return None if now is None or before == now else self.store.changes(table, before, now)


@frozen(eq=False)
class BaseSnapshot(Snapshot):
    """What the base files of a pipeline's tables hold, whatever their versions; nothing before the first publication.

    Args:
        base: reads them.
    """

    base: BaseReading = field(kw_only=True)

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows in a table's base files."""
        there = self.version(table) is not None
        return self.base.read_optimized(table, matching) if there else super().read(table, matching)


@frozen
class _Published:
    """A publication and the place it was found at."""

    publication: Publication
    place: Place
    previous: Place | None


@define(eq=False)
class Ledger:
    """The publications of one pipeline, read from and written with its tables' commits.

    Args:
        store: where the tables are; to be opened the ledger needs none of them ensured, for all else every one.
        pipeline: its name.
        tables: the pipeline's tables in the order of their commits; the last one anchors the publications.
        clock: stamps publications.
        writer: identifies this run; no two runs share one.
        fingerprint: of the service's settings.
        changed: what makes tables of another fingerprint impossible to continue; see `Service.changed`.
    """

    store: TableStore
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
        """Find out where the pipeline stands. Call before anything else, and again after a failed epoch.

        Raises:
            ConfigError: the tables were built under other settings of the service.
        """
        newest = {table: commit for table in self.tables if (commit := self._newest_marked(table))}
        self._latest = self._find_latest(newest)
        self._under_way, self._ahead = None, {}
        self._sequences = {table: _mark(commit).sequence for table, commit in newest.items()}
        self._orphans = {table: commit for table, commit in newest.items() if self._is_unpublished(table, commit)}
        if self.latest and (changed := self.changed(self.latest.fingerprint)):
            raise ConfigError(
                f"pipeline {self.pipeline!r} was built with other {changed}; its tables cannot be continued with these:"
                " give the pipeline another name, or remove its folder to build it anew"
            )

    @property
    def latest(self) -> Publication | None:
        """The newest publication; None before the first."""
        return self._latest.publication if self._latest else None

    @property
    def next_epoch(self) -> Epoch:
        """The epoch that comes after the newest publication."""
        return Epoch(self.pipeline, self.latest.epoch.number + 1 if self.latest else self._first)

    @property
    def unfinished(self) -> OffsetRange | None:
        """The range of an epoch that was begun and not published, so that a restart can do the same work again."""
        begun = (mark for mark in map(_mark, self._orphans.values()) if mark.epoch == self.next_epoch)
        return next((mark.offsets for mark in begun if not mark.rolls_back and not mark.task), None)

    def snapshot(self, publication: Publication | None = None) -> Snapshot:
        """The tables as of a publication; of the newest where none is given."""
        return Snapshot(self.store, publication or self.latest)

    def publications(self) -> Iterator[Publication]:
        """All publications that can still be found, newest first.

        Raises:
            VersionExpired: upon going further back than the tables' history reaches.
        """
        found = self._latest
        while found:
            yield found.publication
            found = self._at(found.previous) if found.previous else None

    def known(self, count: int | None = None) -> list[Publication]:
        """The publications that can still be told of, newest first; at most so many, if a count is given."""
        found: list[Publication] = []
        with suppress(VersionExpired):  # where the tables' history ends
            for publication in islice(self.publications(), count):
                found.append(publication)  # noqa: PERF402 - one by one, so that those before the end are there
        return found

    def as_of_epoch(self, number: int) -> Publication:
        """The publication of an epoch.

        Raises:
            VersionNotFound: there is none (yet).
            VersionExpired: it has been cleaned away.
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
        """The newest publication made at or before a moment.

        Raises:
            VersionNotFound: the first one was made later.
            VersionExpired: it has been cleaned away.
        """
        for publication in self.publications():
            if publication.published_at <= moment:
                return publication
        raise VersionNotFound(f"pipeline {self.pipeline!r} had published nothing by {moment.isoformat()}")

    def as_of_label(self, label: Label, of: Callable[[Publication], Label | None]) -> Publication:
        """The newest publication of a label.

        Args:
            label: which.
            of: the label of a publication; never later than its watermark.

        Raises:
            VersionNotFound: there is none (yet); the message names the labels next to it.
            VersionExpired: it has been cleaned away.
        """
        passed = None
        for publication in self.publications():
            if of(publication) == label:
                return publication
            if publication.watermark is None or publication.watermark < label.watermark:  # and it never goes back
                break
            passed = publication
        else:
            publication = None
        near = (f"epoch {each.epoch.number} has {of(each) or 'none'}" for each in (publication, passed) if each)
        raise VersionNotFound(
            f"pipeline {self.pipeline!r} has no version of label {label}; {'; '.join(near) or 'none is published yet'}"
        )

    def adopt(self, publication: Publication) -> Epoch:
        """Start this ledger, which is empty, with an epoch that another store has published: its whole content.

        An earlier try that was cut off is gone on with. Commit an overwrite of every table, then publish.

        Raises:
            ConfigError: there are publications here already.
            EpochConflict: as `begin`.
        """
        if self.latest:
            raise ConfigError(
                f"pipeline {self.pipeline!r} is there already, at epoch {self.latest.epoch.number}: move to another"
                " path, or remove its folder"
            )
        self._first = publication.epoch.number
        return self.begin(OffsetRange(None, publication.offsets))

    def begin(self, offsets: OffsetRange, task: str | None = None) -> Epoch:
        """Start the next epoch over a range: what an earlier try committed of other work is rolled back first.

        Args:
            offsets: what it reads.
            task: what it does instead of reading; nothing of an earlier try is kept then.

        Raises:
            EpochConflict: another writer is at work on this pipeline.
        """
        epoch = self.next_epoch
        self._under_way, self._began_at, self._ahead = (epoch, offsets, task), self.clock.now(), {}
        for table, commit in self._orphans.items():
            # The anchor's part is made with its publication or not at all; one without was made for another anchor.
            same = not task and _mark(commit).holds(epoch, offsets, self.fingerprint)
            if same and table != self.tables[-1]:
                self._ahead[table] = commit.version
            else:
                self._take_back(table)
        self._orphans = {}
        return epoch

    def ahead(self) -> Snapshot:
        """The newest publication with the tables that the epoch under way has committed so far."""
        return Snapshot(self.store, self.latest, dict(self._ahead))

    def commit(self, table: str, change: Change) -> Version:
        """Commit one table's part of the epoch; what is there already is recognised and not done again.

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
        """Commit the last table's part, and the publication with it.

        Args:
            change: of the last table.
            watermark: see `Publication`.
            watermarks: see there; they stay as they were, where none are given.
            tally: see there.

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
        """Whether a table's newest marked commit leaves other rows than the newest publication pins."""
        pinned, mark = self.snapshot().version(table), _mark(commit)
        if not mark.rolls_back:
            return commit.version != pinned
        # A writer that lost may have rolled back to a publication that was no longer the newest.
        try:
            restored = self._at(mark.previous) if mark.previous else None
        except VersionExpired:  # what was brought back cannot be told any more: to do so again is always right
            return True
        return Snapshot(self.store, restored.publication if restored else None).version(table) != pinned

    def _newest_marked(self, table: str) -> Commit | None:
        return next((commit for commit in self.store.versions(table) if commit.mark), None)

    def _find_latest(self, newest: Mapping[str, Commit]) -> _Published | None:
        """The newest publication, from the newest marked commit of each table."""
        if not newest:
            return None
        marks = [_mark(commit) for commit in newest.values()]
        last = max(mark.epoch.number for mark in marks)
        leading = [mark for mark in marks if mark.epoch.number == last]
        # Parts of one epoch may name two anchors, where a table was added or removed before it was published.
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
