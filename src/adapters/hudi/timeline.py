"""A table's timeline: its instants and the metadata of their commits."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import takewhile
from threading import RLock
from typing import Any

from attrs import define, field, frozen

from ...domain.epoch.epoch import Mark
from ...domain.errors import StoreUnavailable, TableDamaged, VersionExpired, VersionNotFound
from ...domain.ports import Commit, Version
from ...domain.table.schema import Schema
from ..shared.in_turn import in_turn
from ..spark.jvm import each_of, java_class
from .clock import PATIENCE, moment
from .path import Folder

METADATA_PREFIX = "headwater."
MARK = f"{METADATA_PREFIX}mark"
COLUMNS = f"{METADATA_PREFIX}columns"
FOLDED = f"{METADATA_PREFIX}folded"
"""Metadata of an upkeep commit that left one row per key."""
_META = ".hoodie"
_PROPERTIES = f"{_META}/hoodie.properties"
_COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
_KEPT_INSTANTS = 256


@frozen(eq=False, slots=False)
class Instant:
    """One completed commit; its metadata is read on first use."""

    name: str
    folder: Folder
    _java: Any
    _timeline: Any

    @cached_property
    def mark(self) -> Mark | None:
        """Its mark; None for upkeep."""
        text = self._metadata.getExtraMetadata().get(MARK)
        return None if text is None else Mark.from_json(text, f"version {self.name} of {self.folder.path}")

    @cached_property
    def columns(self) -> Schema | None:
        """The columns that it gave the table; None if it did not change them."""
        text = self._metadata.getExtraMetadata().get(COLUMNS)
        return None if text is None else Schema.parse(text)

    @property
    def folds(self) -> bool:
        """Whether it left one row per key."""
        return self._metadata.getExtraMetadata().get(FOLDED) is not None

    @property
    def completed(self) -> str:
        """Its completion time, in the format of its name, which is the time of its start."""
        return str(self._java.getCompletionTime())

    @property
    def folders(self) -> set[str]:
        """The partitions in which it wrote or replaced files; the empty name for a table without partitions."""
        touched = set(self._metadata.getPartitionToWriteStats().keySet())
        if self._java.getAction() == "replacecommit":
            touched.update(self._timeline.readReplaceCommitMetadata(self._java).getPartitionToReplaceFileIds().keySet())
        return touched

    @property
    def commit(self) -> Commit:
        """The commit as the port's `Commit`."""
        return Commit(Version(self.name), moment(self.name), self.mark, int(self._metadata.fetchTotalRecordsWritten()))

    @property
    def files(self) -> Iterator[tuple[str, int]]:
        """The files that it wrote, relative to the table's folder, and their sizes at that time, in bytes."""
        metadata = json.loads(str(self._metadata.toJsonString()))
        for stats in metadata["partitionToWriteStats"].values():
            yield from ((each["path"], each["fileSizeInBytes"]) for each in stats if each.get("path"))

    @cached_property
    def _metadata(self) -> Any:
        if self._timeline.isEmpty(self._java):  # Hudi would read it as a commit that wrote nothing
            raise TableDamaged(
                f"version {self.name} of {self.folder.path}: the file of its commit is empty; put it back from a backup"
            )
        return self._timeline.readCommitMetadata(self._java)


@frozen
class Head:
    """The newest state of a table.

    Args:
        newest: its newest version; None before the first.
        sequence: the sequence of the newest marked commit; 0 before the first.
    """

    newest: str | None
    sequence: int = 0


@define(eq=False)
class Timeline:
    """The timeline of the table in a folder. Several threads may use it. Exceptions of the JVM are not translated."""

    folder: Folder
    _lock: RLock = field(init=False, factory=RLock)
    _opened: Any = field(init=False, default=None)
    _met: OrderedDict[str, Instant] = field(init=False, factory=OrderedDict)
    _whole: set[str] = field(init=False, factory=set)
    _replacing: dict[str, list[tuple[str, str]]] = field(init=False, factory=dict)

    @property
    def exists(self) -> bool:
        """Whether any commit was ever started.

        A writer that dies while it creates a table leaves its properties empty or missing.

        Raises:
            TableDamaged: that is so although there are commits.
        """
        if self._opened is not None or (size := self.folder.size(_PROPERTIES)):
            return True
        backup = f"{_PROPERTIES}.backup"  # Hudi makes it when it changes them, and reads it if they are missing
        if size is None and self.folder.holds(backup):
            return True
        if self.folder.has_files(f"{_META}/timeline"):
            raise TableDamaged(
                f"the table in {self.folder.path} has commits, but {_PROPERTIES} is empty or missing; put it back from"
                f" {backup}, if that is there, or from a backup of yours"
            )
        return False

    def delete_unfinished_table(self) -> None:
        """Delete the files of a writer that died while it created the table. Call it under the table's lock."""
        if not self.exists and self.folder.holds(_META):
            self.folder.remove(_META)

    def newest_first(self) -> Iterator[Instant]:
        """All completed commits, read as the iterator advances."""
        if not self.exists:
            return
        timeline = self._completed()
        for instant in each_of(timeline.getReverseOrderedInstants()):
            yield self._instant(instant, timeline)

    def completion_times(self) -> dict[str, str]:
        """The completion time of each completed commit, in the format of their names; oldest first."""
        return dict(sorted((instant.name, instant.completed) for instant in self.newest_first()))

    @in_turn
    def replaced(self) -> dict[tuple[str, str], str]:
        """The file groups, by partition and id, that are no longer read, and the instant from which on."""
        timeline = self._completed().getCompletedReplaceTimeline()
        there = {str(instant.requestedTime()): instant for instant in timeline.getInstants()}
        # What an instant replaced is read once.
        self._replacing = {
            name: self._replacing.get(name) or _replaced_by(timeline, instant) for name, instant in there.items()
        }
        return {group: name for name, groups in self._replacing.items() for group in groups}

    def replaced_in(self, instants: Collection[str]) -> bool:
        """Whether any of these instants replaced file groups."""
        return not set(self.replaced().values()).isdisjoint(instants)

    def newest(self) -> str | None:
        """The newest version; None before the first."""
        return next((instant.name for instant in self.newest_first()), None)

    @in_turn
    def instant(self, version: str) -> Instant:
        """One completed commit.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: its commit is no longer in the timeline.
        """
        if version not in self._met:
            timeline = self._completed() if self.exists else None
            if timeline is None or not timeline.containsInstant(version):
                raise self._missing(version)
            found = timeline.findInstantsInClosedRange(version, version).firstInstant().get()
            return self._instant(found, timeline)
        return self._met[version]

    def check_listed(self, version: str) -> None:
        """Check that a version is in the timeline, and that its files have not been cleaned away.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: its commit is no longer in the timeline, or Hudi's own cleaner has deleted its files.
        """
        self._readable_commits(version)

    def is_newest(self, version: str) -> bool:
        """Whether a version is the newest; raises as `check_listed`."""
        return bool(self._readable_commits(version).lastInstant().get().requestedTime() == version)

    @in_turn
    def check_complete(self, version: str) -> None:
        """Check, once, that the files of a commit are complete.

        Hudi's readers silently skip a missing file and the missing end of a log.

        Raises:
            TableDamaged: a file is missing or cut off.
        """
        if version in self._whole:
            return
        for name, size in self.instant(version).files:
            if (found := self.folder.size(name)) is None or found < size:
                state = "gone" if found is None else f"cut off ({found} of {size} bytes)"
                raise TableDamaged(
                    f"version {version} of {self.folder.path}: its file {name} is {state}. Put it back from a backup,"
                    " or build the pipeline again under another name"
                )
        self._whole.add(version)

    def cleaned_versions(self) -> list[str]:
        """The commits whose files Hudi's own cleaner has deleted, no matter who ran it."""
        before = _cleaned_before(self.client.reloadActiveTimeline()) if self.exists else ""
        return [name for name in self.completion_times() if name < before] if before else []

    def head(self) -> Head:
        """The newest version and the newest mark now."""
        newest = None
        for instant in self.newest_first():
            newest = newest or instant.name
            if instant.mark:
                return Head(newest, instant.mark.sequence)
        return Head(newest)

    def commits_since_refold(self) -> int:
        """The number of marked commits after the last one that left one row per key."""
        since = takewhile(lambda instant: not instant.folds, self.newest_first())
        return sum(instant.mark is not None for instant in since)

    def wait_for_clock(self) -> None:
        """Wait until the next instant comes after all others: Hudi orders instants by their times.

        Plans count: the rows of a commit with an earlier instant than a compaction would not be read. Call it under the
        table's lock.

        Raises:
            StoreUnavailable: this machine's clock is far behind the newest instant.
        """
        newest = self._latest_time() if self.exists else ""
        behind = moment(newest) - datetime.now(UTC) if newest else timedelta(-1)
        if behind > PATIENCE:
            raise StoreUnavailable(
                f"{self.folder.path}: the clock is {behind} behind the newest commit or compaction ({newest}, UTC);"
                " set it right, or try again later"
            )
        if behind > timedelta(milliseconds=-1):
            time.sleep(behind.total_seconds() + 0.002)

    @in_turn
    def _latest_time(self) -> str:
        """The latest time at which an instant was requested or completed, as in names; empty if there is none."""
        active = self.client.reloadActiveTimeline()
        last, completed = active.lastInstant(), active.getLatestCompletionTime()
        requested = str(last.get().requestedTime()) if last.isPresent() else ""
        return max(requested, str(completed.get()) if completed.isPresent() else "")

    def touched_folders(self, one: str | None, other: str | None) -> set[str] | None:
        """The partitions in which marked commits between two versions wrote or replaced files; None for all.

        The versions are in the timeline, or None for the one before the first commit: what was written since may be in
        any partition, as the first commits may be archived.
        """
        after, until = sorted((one or "", other or ""))
        if not after:
            return None
        folders: set[str] = set()
        for instant in self.newest_first():
            if instant.name <= after:
                break
            if instant.name <= until and instant.mark:
                folders |= instant.folders
        return folders

    def has_unfinished(self) -> bool:
        """Whether a commit was begun and not completed. Plans of upkeep do not count."""
        if not self.exists:
            return False
        begun = self.client.reloadActiveTimeline().filterInflightsAndRequested().getInstants()
        return any(instant.getAction() in _COMMITS for instant in each_of(begun))

    def pending(self, kind: str) -> str | None:
        """The oldest instant of upkeep that was planned and not completed; `kind` is the name of Hudi's filter."""
        first = getattr(self.client.reloadActiveTimeline(), kind)().firstInstant()
        return str(first.get().requestedTime()) if first.isPresent() else None

    def columns(self, version: str) -> Schema:
        """The columns of a version of a table that is replaced as a whole: those of its last commit that set any."""
        given = (instant.columns for instant in self.newest_first() if instant.name <= version)
        return next((columns for columns in given if columns is not None), Schema(()))

    def schema(self) -> str:
        """The schema of the stored table, as Avro JSON."""
        resolver = java_class(self.folder.session, "org.apache.hudi.common.table.TableSchemaResolver")
        return str(resolver(self.client).getTableSchema(False).toString())

    @in_turn
    def _instant(self, java: Any, timeline: Any) -> Instant:
        name = str(java.requestedTime())
        if name not in self._met:
            self._met[name] = Instant(name, self.folder, java, timeline)
            if len(self._met) > _KEPT_INSTANTS:
                self._whole.discard(self._met.popitem(last=False)[0])
        return self._met[name]

    @in_turn
    def _completed(self) -> Any:
        timeline = self.client.reloadActiveTimeline().getWriteTimeline().filterCompletedInstants()
        if self._met:
            self._forget_archived(timeline)
        return timeline

    def _forget_archived(self, timeline: Any) -> None:
        first = timeline.firstInstant()
        oldest = str(first.get().requestedTime()) if first.isPresent() else ""
        for name in [each for each in self._met if each < oldest]:
            del self._met[name]
            self._whole.discard(name)

    @in_turn
    def _readable_commits(self, version: str) -> Any:
        """The completed commits now. Raises an error if they lack the version, or if it has been cleaned up."""
        completed = self._completed() if self.exists else None
        if completed is None or not completed.containsInstant(version):
            raise self._missing(version)
        if version < _cleaned_before(self.client.getActiveTimeline()):
            raise self._expired(version)
        return completed

    def _missing(self, version: str) -> Exception:
        # Read again: the client's copy of the archive may be outdated.
        if self.exists and version.isdecimal() and self.client.getArchivedTimeline("", False).containsInstant(version):
            return self._expired(version)
        return VersionNotFound(f"{self.folder.path} has no version {version!r}: no commit was made at that instant")

    def _expired(self, version: str) -> VersionExpired:
        return VersionExpired(
            f"version {version} of {self.folder.path} has been cleaned away; read a newer one, or keep versions for"
            " longer"
        )

    @property
    def client(self) -> Any:
        """Hudi's own client of the table, which must exist."""
        if self._opened is None:
            client = java_class(self.folder.session, "org.apache.hudi.common.table.HoodieTableMetaClient")
            self._opened = client.builder().setConf(self.folder.storage).setBasePath(self.folder.path).build()
        return self._opened


def _replaced_by(timeline: Any, instant: Any) -> list[tuple[str, str]]:
    """The file groups, by partition and id, that an instant replaced."""
    partitions = timeline.readReplaceCommitMetadata(instant).getPartitionToReplaceFileIds()
    return [(str(partition), str(each)) for partition, ids in partitions.items() for each in ids]


def _cleaned_before(active: Any) -> str:
    """The oldest instant that the last clean by Hudi itself kept; empty if there was no clean."""
    last = active.getCleanerTimeline().filterCompletedInstants().lastInstant()
    return str(active.readCleanMetadata(last.get()).getEarliestCommitToRetain()) if last.isPresent() else ""
