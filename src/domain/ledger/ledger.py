"""Publications and their snapshots, found in the commits of a pipeline's tables.

The ledger has no table of its own. A publication is stored in the metadata of its epoch's last commit. Every mark names
the commit of the previous publication, so that all publications can be found from any table's newest commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

import narwhals as nw
from attrs import define, evolve, field, frozen

from ..epoch.epoch import Epoch, Mark, Offsets, Place, Publication, Shortcut
from ..epoch.watermark import format_time
from ..errors import ConfigError, EpochConflict, HeadwaterError, TableDamaged, VersionExpired, VersionNotFound
from ..ports import BaseReading, Clock, Commit, Version, VersionedStore
from ..table.change import Matching
from ..table.spec import REBUILD
from .label import Label

_REMOVE = (
    "remove the folders of all tables of the pipeline, so that the next run builds them from its source (a rebuild must"
    " know from this table up to where the source has been read)"
)


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
    def watermark(self) -> datetime | None:
        """The watermark of the publication; None if it has none, or there is no publication."""
        return self.publication.watermark if self.publication else None

    @property
    def versions(self) -> dict[str, Version]:
        """The version of each table in this snapshot; a table without a version is missing."""
        tables = self.publication.tables if self.publication else {}
        return {**{name: Version(version) for name, version in tables.items()}, **self.ahead}

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of a table in this snapshot."""
        return self.store.read(table, self.version(table), matching)

    def look_up(
        self, table: str, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        """See `TableReader.look_up`."""
        return self.store.look_up(table, self.version(table), asked, matching, columns)

    def size(self, table: str) -> int:
        """The size of a table's files in this snapshot, in bytes; see `TableHistory.size`."""
        version = self.version(table)
        return 0 if version is None else self.store.size(table, version)

    def changes_since(self, earlier: Snapshot, table: str) -> nw.LazyFrame[Any] | None:
        """Net changes of a table from an earlier snapshot to this one; None if its version is the same."""
        before, now = earlier.version(table), self.version(table)
        return None if now is None or before == now else self.store.changes(table, before, now)

    def changed_keys_since(self, earlier: Snapshot, table: str) -> nw.LazyFrame[Any] | None:
        """At least the keys that `changes_since` has, in the key's columns; None if the table's version is the same."""
        before, now = earlier.version(table), self.version(table)
        return None if now is None or before == now else self.store.changed_keys(table, before, now)


@frozen(eq=False)
class BaseSnapshot(Snapshot):
    """The base files of a pipeline's tables, independent of versions; empty before the first publication."""

    base: BaseReading = field(kw_only=True)

    def read(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows in a table's base files."""
        exists = self.version(table) is not None
        return self.base.read_optimized(table, matching) if exists else super().read(table, matching)


@frozen
class Published:
    """A publication.

    Args:
        publication: the publication.
        place: the commit that carries it.
        previous: the commit of the previous publication; None for the first.
        engine: the engine that made it, if its mark names one.
        shortcut: a publication further back, if its mark names one; see `shortcuts`.
    """

    publication: Publication
    place: Place
    previous: Place | None
    engine: str | None = None
    shortcut: Shortcut | None = None

    @property
    def number(self) -> int:
        """The number of its epoch."""
        return self.publication.epoch.number


@define(eq=False)
class Ledger:
    """The publications of one pipeline. `LedgerWriter` adds to them.

    Args:
        store: the store of the tables. `open` works without `ensure`; all other methods need every table ensured.
        pipeline: its name.
        tables: the pipeline's tables in the order of their commits; the last one is the anchor of publications.
        clock: returns the present time.
        changed: returns the reason why tables with another fingerprint cannot be continued; see `Service.changed`.
    """

    store: VersionedStore
    pipeline: str
    tables: Sequence[str]
    clock: Clock
    changed: Callable[[str], str | None]
    _newest: dict[str, Commit] = field(init=False, factory=dict)
    _latest: Published | None = field(init=False, default=None)
    first_seen: int = field(init=False, default=0)
    """The number of the first epoch that readers could see; a rebuild has published those before it."""

    def open(self) -> None:
        """Read the state of the pipeline. Call it before any other method, and again after a failed epoch.

        Raises:
            ConfigError: the tables were built with other settings of the service.
            PipelineRebuilt: they are not those of the current generation any more.
            TableDamaged: the table that carries the latest publication is gone.
            UnfinishedMove: nothing is published yet, and a move to these tables has not ended.
        """
        self.store.check_current(self.pipeline)
        self.first_seen = self.store.first_epoch(self.pipeline)
        self._newest = {table: commit for table in self.tables if (commit := self._newest_marked(table))}
        self._latest = self._find_latest()
        if self.latest is None:
            self._check_copied()
        elif changed := self.changed(self.latest.fingerprint):
            raise ConfigError(
                f"pipeline {self.pipeline!r} was built with other {changed}; its tables cannot be continued with these:"
                f" use the configuration that they were built with, or {REBUILD}"
            )

    def check_there(self) -> None:
        """Refuse tables that are gone, or older than what is published: an epoch would continue from what is left.

        Raises:
            TableDamaged: a table lacks the version of it that is published.
        """
        for table, version in (self.latest.tables if self.latest else {}).items():
            newest = self._newest.get(table)
            if table not in self.tables or (newest and newest.version == version):
                continue
            try:
                self.store.version(table, Version(version))
            except VersionExpired:  # its commit is gone from the log, as of a table that rarely changes
                continue
            except VersionNotFound as error:
                raise gone(self.pipeline, table, version) from error

    @property
    def latest(self) -> Publication | None:
        """The latest publication; None before the first."""
        return self._latest.publication if self._latest else None

    @property
    def offsets(self) -> Offsets | None:
        """The offsets of the latest publication; None before the first."""
        return self.latest.offsets if self.latest else None

    @property
    def watermark(self) -> datetime | None:
        """The watermark of the latest publication; None if it has none, and before the first."""
        return self.latest.watermark if self.latest else None

    @property
    def engine(self) -> str | None:
        """The engine that made the latest publication, if the deployment chooses one for each epoch."""
        return self._latest.engine if self._latest else None

    @property
    def next_epoch(self) -> Epoch:
        """The epoch after the latest publication."""
        return Epoch(self.pipeline, self.latest.epoch.number + 1 if self.latest else 0)

    def read_writer(self) -> str | None:
        """The run that made the newest commit of the anchor table, read from its store now; None if there is none."""
        newest = self._newest_marked(self.tables[-1])
        return mark_of(newest).writer if newest else None

    def snapshot(self, publication: Publication | None = None) -> Snapshot:
        """The tables as of a publication; by default the latest."""
        return Snapshot(self.store, publication or self.latest)

    def publications(self) -> Iterator[Publication]:
        """All publications that can still be found, newest first; also those of a rebuild, which no reader has seen.

        Raises:
            VersionExpired: when the iterator goes back beyond the tables' history.
        """
        return self._search(lambda _shortcut: False)

    def _search(self, passes: Callable[[Shortcut], bool], first: int = 0) -> Iterator[Publication]:
        """Publications, newest first.

        Args:
            passes: whether the publications that a shortcut passes over may be left out.
            first: the number of the epoch at which the search ends.

        Raises:
            VersionExpired: see `publications`.
        """
        found = self._latest
        while found and found.number >= first:
            yield found.publication
            if found.number == first:
                return
            further = self._follow(found.shortcut) if found.shortcut and passes(found.shortcut) else None
            found = further or (self._at(found.previous) if found.previous else None)

    def _follow(self, shortcut: Shortcut) -> Published | None:
        """The publication that a shortcut leads to; None if it cannot be read: those before it say why."""
        with suppress(HeadwaterError):
            found = self._at(shortcut.place)
            return found if found and found.number == shortcut.number else None
        return None

    def known(self, count: int | None = None) -> list[Publication]:
        """As `publications`, up to where the tables' history ends, and at most `count` of them (None: all)."""
        found: list[Publication] = []
        with suppress(VersionExpired):  # where the tables' history ends
            for publication in islice(self.publications(), count):
                found.append(publication)  # noqa: PERF402 - one by one, to keep those before the error
        return found

    def before(self, publication: Publication) -> Publication | None:
        """The publication before this one; None if it is the first one that readers of these tables could see.

        Raises:
            VersionExpired: the one before it has expired.
        """
        older = self._search(lambda shortcut: shortcut.number >= publication.epoch.number, self.first_seen)
        for each in older:
            if each.epoch == publication.epoch:
                break
        return next(older, None)

    def as_of_epoch(self, number: int) -> Publication:
        """The publication of an epoch that readers could see.

        Raises:
            VersionNotFound: the pipeline has no such epoch (yet), or it is from before a rebuild.
            VersionExpired: it has expired.
        """
        if 0 < self.first_seen > number:
            raise self._not_found(f"has no epoch {number}")
        return self.find_epoch(number)

    def find_epoch(self, number: int) -> Publication:
        """As `as_of_epoch`; also an epoch of a rebuild, which no reader has seen."""
        end = f"the newest is {self.latest.epoch.number}" if self.latest else "none is published yet"
        if self.latest and number < self.latest.epoch.number:
            for publication in self._search(lambda shortcut: shortcut.number >= number):
                if publication.epoch.number == number:
                    return publication
                end = f"the oldest is {publication.epoch.number}"
        elif self.latest and number == self.latest.epoch.number:
            return self.latest
        raise VersionNotFound(f"pipeline {self.pipeline!r} has no epoch {number}; {end}")

    def as_of_time(self, moment: datetime) -> Publication:
        """The latest publication made at or before a time.

        Raises:
            VersionNotFound: the first publication was made later, or the one of then is from before a rebuild.
            VersionExpired: it has expired.
        """
        for publication in self._search(lambda shortcut: shortcut.earliest > moment, self.first_seen):
            if publication.published_at <= moment:
                return publication
        raise self._not_found(f"had published nothing by {format_time(moment)}")

    def as_of_label(self, label: Label, of: Callable[[Publication], Label | None]) -> Publication:
        """The latest publication with a label.

        Args:
            label: the label.
            of: returns the label of a publication; never later than its watermark.

        Raises:
            VersionNotFound: no publication has the label (yet), or it is from before a rebuild; the message names its
                neighbours.
            VersionExpired: it has expired.
        """
        newer = None
        for publication in self._search(lambda _shortcut: False, self.first_seen):
            if of(publication) == label:
                return publication
            if publication.watermark is None or publication.watermark < label.watermark:  # watermarks never go back
                break
            newer = publication
        else:
            publication = None
        near = (f"epoch {each.epoch.number} has {of(each) or 'none'}" for each in (publication, newer) if each)
        what = f"has no version of label {label}; {'; '.join(near) or 'none is published yet'}"
        raise self._not_found(what, passed_all=publication is None)

    def _not_found(self, what: str, *, passed_all: bool = True) -> VersionNotFound:
        rebuilt = (
            f"; epoch {self.first_seen} is the first one since it was rebuilt, and versions of before the rebuild"
            " cannot be read any more: a program that follows the changes reads all rows once, and goes on from there"
        )
        return VersionNotFound(f"pipeline {self.pipeline!r} {what}{rebuilt if passed_all and self.first_seen else ''}")

    def _check_copied(self) -> None:
        """Refuse tables to which a move copies the pipeline; see `TableHistory.check_copied`."""
        self.store.check_copied(self.pipeline)

    def _newest_marked(self, table: str) -> Commit | None:
        return next((commit for commit in self.store.versions(table) if commit.mark), None)

    def _find_latest(self) -> Published | None:
        if not self._newest:
            return None
        marks = [mark_of(commit) for commit in self._newest.values()]
        last = max(mark.epoch.number for mark in marks)
        leading = [mark for mark in marks if mark.epoch.number == last]
        # Commits of one epoch may name two anchors, if a table was added or removed before it was published.
        for anchor in dict.fromkeys(mark.anchor for mark in leading):
            ending = self._newest.get(anchor) or self._newest_marked(anchor)
            if ending and mark_of(ending).publication and mark_of(ending).epoch.number >= last:
                return published_by(anchor, ending.version, mark_of(ending))
        previous = leading[0].previous
        try:
            return self._at(previous) if previous else None
        except VersionNotFound as error:
            lost = previous.version if previous else ""
            raise gone(self.pipeline, leading[0].anchor, lost, _REMOVE) from error

    def _at(self, place: Place) -> Published | None:
        version = Version(place.version)
        return published_by(place.table, version, mark_of(self.store.version(place.table, version)))


def mark_of(commit: Commit) -> Mark:
    """The mark of a commit.

    Raises:
        EpochConflict: it has none.
    """
    if (mark := commit.mark) is None:
        raise EpochConflict(f"version {commit.version} carries no mark: it was not made by Headwater")
    return mark


def gone(pipeline: str, table: str, version: str, remedy: str = REBUILD) -> TableDamaged:
    """The error for a table that lacks a version of it that is published."""
    return TableDamaged(
        f"pipeline {pipeline!r} has published version {version} of its table {table!r}, which is not there: put the"
        f" table's folder back from a backup, or {remedy}"
    )


def published_by(table: str, version: Version, mark: Mark) -> Published | None:
    """The publication that a commit carries in its mark; None if it carries none."""
    if mark.publication is None:
        return None
    publication = evolve(mark.publication, tables={**mark.publication.tables, table: version})
    return Published(publication, Place(table, version), mark.previous, mark.engine, mark.shortcut)


def find_no_change(_fingerprint: str) -> None:
    """The `changed` of a ledger that is opened whatever settings its tables were built with."""
