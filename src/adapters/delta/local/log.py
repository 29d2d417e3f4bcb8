"""A table's Delta log, followed commit by commit in this process, without a JVM.

A commit is one file that must not exist yet, so the second of two writers fails, on whichever engine it runs.
"""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import RLock
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from attrs import define, field, frozen

from ....domain.errors import NotInstalled, NotSupported, StoreUnavailable, TableDamaged, VersionExpired
from ...shared.in_turn import in_turn
from ..actions import ACTIONS, CommitFile, DataFile, action_json
from ..followed_log import BEFORE_ALL, FollowedLog, KeptCommits, keep
from ..spec import TableMetadata
from .checkpoint import read_checkpoint
from .disk import Disk
from .folder import LocalFolder, LogListing
from .mapping import needed_protocol
from .storage import Storage

_WRITER = "headwater"
_KEPT_VERSIONS = 32
_CHECKPOINT_INTERVAL = "delta.checkpointInterval"
_READER, _WRITER_FEATURES = 3, 7
_KNOWN_FEATURES = frozenset({"appendOnly", "invariants", "columnMapping", "timestampNtz", "vacuumProtocolCheck"})
_REQUIRED_FROM = {
    "invariants": 2,
    "checkConstraints": 3,
    "changeDataFeed": 4,
    "generatedColumns": 4,
    "identityColumns": 6,
}
"""Features that each writer must heed that uses them, and the protocol version that says so where none are listed."""
_IN_COLUMNS = {
    "invariants": '"delta.invariants"',
    "generatedColumns": '"delta.generationExpression"',
    "identityColumns": '"delta.identity.start"',
    "NOT NULL": r'"nullable":\s*false',
}
"""By feature, a pattern of what is in the schema's JSON if a column uses it."""
_logger = logging.getLogger(__name__)


class CommitConflict(Exception):
    """Another commit has this version; nothing was changed."""


@frozen(eq=False)
class LogState:
    """A table at one version: its data files by path, and the bodies of its newest metadata and protocol actions."""

    version: int = BEFORE_ALL
    files: Mapping[str, DataFile] = field(factory=dict)
    metadata: Mapping[str, Any] = field(factory=dict)
    protocol: Mapping[str, Any] = field(factory=dict)

    def after(self, commit: CommitFile) -> LogState:
        return LogState(
            self.version + 1,
            commit.apply_to(self.files),
            commit.metadata or self.metadata,
            commit.protocol or self.protocol,
        )

    @property
    def table(self) -> TableMetadata:
        """What its metadata says of the table."""
        found = self.metadata
        return TableMetadata(found["schemaString"], tuple(found["partitionColumns"]), found["configuration"])

    def check(self, path: str) -> None:
        """Refuse a log without a definition of its table, or one that needs more than this engine can do.

        Raises:
            TableDamaged: no commit defines the table.
            NotSupported: names the features.
        """
        if not self.metadata:
            raise TableDamaged(
                f"{path}: no commit up to version {self.version} of its log defines the table; put its first commits"
                " back from a backup"
            )
        features = {*(self.protocol.get("readerFeatures") or ()), *(self.protocol.get("writerFeatures") or ())}
        reader, writer = self.protocol.get("minReaderVersion", 1), self.protocol.get("minWriterVersion", 2)
        if reader > _READER or writer > _WRITER_FEATURES or not features.issubset(_KNOWN_FEATURES):
            what = ", ".join(sorted(features - _KNOWN_FEATURES)) or f"protocol versions {reader} and {writer}"
            raise NotSupported(f"the Delta features of {path} ({what})", "delta, engine local", 'set engine = "spark"')

    def check_writable(self, path: str, *, removes: bool) -> None:
        """Refuse to write rows for which the table sets conditions that this engine does not check.

        Args:
            path: the table's path.
            removes: whether rows are removed.

        Raises:
            NotSupported: names the conditions.
        """
        if not self.metadata:
            return
        version, properties = self.protocol.get("minWriterVersion", 2), self.metadata["configuration"]
        found = {name for name, key in _IN_COLUMNS.items() if re.search(key, self.metadata["schemaString"])}
        if any(name.startswith("delta.constraints.") for name in properties):
            found.add("checkConstraints")
        if _is_on(properties, "delta.enableChangeDataFeed"):
            found.add("changeDataFeed")
        if unmet := sorted(name for name in found if _REQUIRED_FROM.get(name, 0) <= version):
            what = f"writing to {path}, which uses {', '.join(unmet)}"
            raise NotSupported(what, "delta, engine local", 'remove that from the table, or set engine = "spark"')
        if removes and _is_on(properties, "delta.appendOnly"):
            what = f"changing rows of {path}, which has the property delta.appendOnly"
            raise NotSupported(what, "delta", "unset the property with ALTER TABLE")


def _is_on(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").lower() == "true"


@define(eq=False)
class LocalLog(FollowedLog):
    """The log of the table at `path`, a folder that need not exist yet.

    Several threads may use it. Each commit is applied once, to the version before it: two threads that read the same
    commit and both applied it would make a version that the table does not have.
    """

    path: str
    storage: Storage = field(factory=Disk)
    _lock: RLock = field(init=False, factory=RLock)
    _newest: LogState = field(init=False, factory=LogState)
    _states: OrderedDict[int, LogState] = field(init=False, factory=OrderedDict)
    _commits: KeptCommits = field(init=False, factory=KeptCommits)

    def folder(self) -> LocalFolder:
        return LocalFolder(self.path, self.storage)

    @in_turn
    def newest(self) -> int:
        """The newest version now; -1 if the table does not exist.

        Raises:
            TableDamaged: commits are missing before others that are there, or a commit cannot be parsed.
            StoreUnavailable: a version that was there before is gone.
        """
        opened, logged = self._newest.version != BEFORE_ALL, BEFORE_ALL
        if not opened:
            listed = self.folder().list_newest()
            if (logged := listed.newest) == BEFORE_ALL:
                return BEFORE_ALL
            self._reopen(listed)
        # Log files are deleted oldest first: while the newest known commit is there, nothing after it has gone.
        while not (is_there := self._follow_all()) and self._reopen(self.folder().list_newest()):
            pass
        if not opened:
            self._check_whole(logged)
        elif not is_there:
            self._check_present()
        self._commits.drop_deleted(self.folder())
        return self._newest.version

    @property
    def newest_known(self) -> int:
        return self._newest.version

    def read_commit(self, version: int) -> CommitFile:
        if (text := self.folder().commit_text(version)) is None:
            raise VersionExpired(self.expired_message(version))
        return self._parse(version, text)

    def check_listed(self, version: int) -> None:
        if not self.folder().has_commit(version):
            raise VersionExpired(self.expired_message(version))

    @in_turn
    def state(self, version: int) -> LogState:
        """The table at a version.

        Raises:
            VersionExpired: the log files that describe it have been deleted.
        """
        if version == self._newest.version:
            return self._newest
        if version == BEFORE_ALL:
            return LogState()
        if version not in self._states:
            state = self._start(version)
            while state.version < version:
                state = state.after(self.commit(state.version + 1))
            keep(self._states, version, state, _KEPT_VERSIONS)
        return self._states[version]

    def files(self, version: int) -> Mapping[str, DataFile]:
        return self.state(version).files

    def columns(self, version: int) -> str:
        return self.state(version).table.schema_text

    def metadata(self) -> TableMetadata:
        return self._newest.table

    def has(self, files: Iterable[DataFile]) -> bool:
        current = self._newest.files
        return all(file.path in current or self.folder().has(file) for file in files)

    @in_turn
    def append(
        self,
        upon: LogState,
        actions: Iterable[str],
        *,
        table: TableMetadata | None = None,
        mark: str | None = None,
        sequence: int | None = None,
    ) -> int:
        """Commit upon a version, and return the new one.

        Args:
            upon: the table at the version that the commit builds on.
            actions: add and remove actions, as JSON.
            table: the table's new metadata; None if it stays as it is.
            mark: the mark of an epoch; None for upkeep.
            sequence: the number of the marked commit.

        Raises:
            CommitConflict: that version is not the newest; nothing is changed.
            StoreUnavailable: the disk fails; nothing is changed.
        """
        now = time.time_ns() // 1_000_000
        lines = [] if table is None else _definition(upon, table, now)
        if sequence is not None:
            lines.append(action_json({"txn": {"appId": _WRITER, "version": sequence, "lastUpdated": now}}))
        lines += actions
        text = "\n".join([action_json({"commitInfo": _info(now, mark, 1 + len(lines))}), *lines]) + "\n"
        version = upon.version + 1
        if not self._may_follow(upon) or not self.folder().create_commit(version, text):
            raise CommitConflict
        self._advance(self._parse(version, text))
        self._checkpoint_if_due()
        return version

    def _may_follow(self, upon: LogState) -> bool:
        """Whether a commit may follow a state, as far as is known: that of another writer refuses its file.

        Only the file of the version itself is looked for, in place of the next one too: in an object store, each look
        takes as long as the commit. It shows that the log has not gone.
        """
        if upon.version != self._newest.version:
            return False
        there = upon.version != BEFORE_ALL and self.folder().has_commit(upon.version)
        return there or upon.version == self.newest()

    def _parse(self, version: int, text: str) -> CommitFile:
        try:
            return CommitFile.parse(text)
        except (ValueError, KeyError) as error:
            raise TableDamaged(
                f"version {version} of {self.path}: the file of its commit cannot be read ({error}); put it back from a"
                " backup; of a commit that was never published, because its writer died, remove the commit's file: the"
                " next run makes the epoch again"
            ) from error

    def _follow(self) -> bool:
        """Move on to the next commit; False if there is none."""
        version = self._newest.version + 1
        if (text := self.folder().commit_text(version)) is None:
            return False
        self._advance(self._parse(version, text))
        return True

    def _follow_all(self) -> bool:
        """Move on to the newest commit; whether its file is there."""
        while self._follow():
            pass
        return self.folder().has_commit(self._newest.version)

    def _advance(self, commit: CommitFile) -> None:
        if self._newest.version != BEFORE_ALL:
            keep(self._states, self._newest.version, self._newest, _KEPT_VERSIONS)
        self._move_to(self._newest.after(commit))
        self._commits.put(self._newest.version, commit)

    def _reopen(self, listed: LogListing) -> bool:
        """Begin again at the newest checkpoint; False if it is not beyond what is known."""
        checkpoint = listed.newest_checkpoint
        if checkpoint is None or checkpoint <= self._newest.version:
            return False
        self._move_to(self._from_checkpoint(listed, checkpoint))
        return True

    def _move_to(self, state: LogState) -> None:
        """Make a state the newest one, unless this engine refuses it."""
        state.check(self.path)
        self._newest = state

    def _check_present(self) -> None:
        """Refuse a log that has gone, such as that of a disk no longer mounted: a commit would make another one."""
        known = self._newest.version
        if self.folder().list_newest().newest_checkpoint != known:
            raise StoreUnavailable(
                f"{self.path}: its log has no version {known}, which was there before; mount the disk again, or put the"
                " folder back from a backup; if the table was removed on purpose, start the process again"
            )

    def _check_whole(self, last: int) -> None:
        """Refuse a log whose newest commits cannot be reached: a commit upon what can be would hide them.

        Args:
            last: the newest version whose commit or checkpoint was there before the commits were read.
        """
        if last > self._newest.version:
            raise TableDamaged(
                f"{self.path}: its log has version {last}, and neither commit {self._newest.version + 1} nor a"
                " checkpoint from which it can be read; put the missing file back from a backup; or, if another program"
                ' has written a checkpoint of a newer kind, set engine = "spark"'
            )

    def _start(self, version: int) -> LogState:
        """The nearest state at or before a version that is known, or can be read at once."""
        known = max((each for each in self._states if each < version), default=BEFORE_ALL)
        listed = self.folder().list_log()
        checkpoint = listed.checkpoint_at_or_before(version)
        if checkpoint is not None and checkpoint > known:
            return self._from_checkpoint(listed, checkpoint)
        return self._states.get(known, LogState())

    def _from_checkpoint(self, listed: LogListing, version: int) -> LogState:
        files, metadata, protocol = read_checkpoint(listed.checkpoints[version], self.storage)
        return LogState(version, files, metadata, protocol)

    def _checkpoint_if_due(self) -> None:
        """Write a checkpoint every n commits (a property of the table), so that a new reader need not read all of them.

        The commit stands without it, so a failure is only logged; the next one that is due is written again.
        """
        interval = int(self._newest.table.properties.get(_CHECKPOINT_INTERVAL, 10))
        if self._newest.version % interval == 0 and self._newest.version:
            try:
                self.checkpoint()
            except (OSError, NotInstalled) as error:
                _logger.warning("%s: no checkpoint of version %s: %s", self.path, self._newest.version, error)

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version.

        Raises:
            NotInstalled: the package ``deltalake`` is missing.
            OSError: it cannot be written, or the path looks percent-encoded.
        """
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError as error:
            raise NotInstalled("deltalake is not installed: run pip install 'headwater[delta-local]'") from error
        if unquote(self.path) != self.path or "\\" in self.path:  # delta-rs would read the log of another folder
            raise OSError(
                "the package deltalake takes a percent sign in a path for an escape, and a backslash for a slash;"
                " rename the folder"
            )
        try:
            DeltaTable(self.path).create_checkpoint()
        except DeltaError as error:
            raise OSError(str(error)) from error


def _info(now: int, mark: str | None, actions: int) -> dict[str, Any]:
    marked = {} if mark is None else {"userMetadata": mark}
    operation = "OPTIMIZE" if mark is None else "WRITE"
    metrics = {ACTIONS: str(actions)}
    given = {"timestamp": now, "operation": operation, "operationParameters": {}, "operationMetrics": metrics}
    # The number makes each text one of a kind, so that a writer recognises its own commit; see `Files.create`.
    return {**given, "engineInfo": _WRITER, "txnId": str(uuid4()), **marked}


def _definition(upon: LogState, table: TableMetadata, now: int) -> list[str]:
    """The actions that create a table, or change its columns."""
    created = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "createdTime": now,
    }
    body = {
        **(upon.metadata or created),
        "schemaString": table.schema_text,
        "partitionColumns": list(table.partition_by),
        "configuration": dict(table.properties),
    }
    protocol = needed_protocol(table, upon.protocol)
    changed = [] if protocol == upon.protocol else [action_json({"protocol": protocol})]
    return [*changed, action_json({"metaData": body})]
