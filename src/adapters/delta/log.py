"""A table's Delta log: its versions, their data files, and frames over chosen files.

Delta's own readers and writers rebuild the table's state with one or two Spark jobs for each scan and each commit.
This module follows the data files from commit to commit by the commits' JSON, which takes a millisecond.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any

from attrs import define, field
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ...domain.errors import TableDamaged, VersionExpired
from ..shared.in_turn import in_turn
from ..spark.errors import Fault
from ..spark.jvm import each_of, java_class, option, sequence
from .actions import CommitFile, DataFile
from .folder import TableFolder
from .followed_log import BEFORE_ALL, FollowedLog, KeptCommits, keep
from .spec import TableMetadata
from .transaction import Transaction

_KEPT_VERSIONS = 16
_KEPT_ACTIONS = 1000
_STEPS = 50


@define(eq=False)
class TableLog(FollowedLog):
    """The log of the table at `path`. Several threads may use it. Exceptions of the JVM are not translated."""

    session: SparkSession
    path: str
    _lock: RLock = field(init=False, factory=RLock)
    _files: OrderedDict[int, dict[str, DataFile]] = field(init=False, factory=OrderedDict)
    _commits: KeptCommits = field(init=False, factory=KeptCommits)
    _actions: OrderedDict[str, Any] = field(init=False, factory=OrderedDict)
    _snapshots: OrderedDict[int, Any] = field(init=False, factory=OrderedDict)
    _opened: Any = field(init=False, default=None)

    @property
    def exists(self) -> bool:
        return bool(self._log.tableExists())

    def newest(self) -> int:
        return int(self._update().version())

    @property
    def newest_known(self) -> int:
        return int(self._log.unsafeVolatileSnapshot().version())

    def read_commit(self, version: int) -> CommitFile:
        self._commits.drop_deleted(self.folder())
        text = self._log.store().read(self._commit_file(version), self._log.newDeltaHadoopConf()).mkString("\n")
        try:
            return CommitFile.parse(text)
        except (ValueError, KeyError) as error:
            raise TableDamaged(
                f"version {version} of {self.path}: the file of its commit cannot be read ({error}); put it back from a"
                " backup"
            ) from error

    def check_listed(self, version: int) -> None:
        self._commit_file(version)

    @in_turn
    def files(self, version: int) -> Mapping[str, DataFile]:
        if version == BEFORE_ALL:
            return {}
        if version not in self._files:
            return keep(self._files, version, self._replay(version) or self._list_files(version), _KEPT_VERSIONS)
        self._files.move_to_end(version)
        return self._files[version]

    def has(self, files: Iterable[DataFile]) -> bool:
        current = self.files(self.newest_known)
        return all(file.path in current or self._exists(file) for file in files)

    def _exists(self, file: DataFile) -> bool:
        path, uri = (java_class(self.session, name) for name in ("org.apache.hadoop.fs.Path", "java.net.URI"))
        place = path(self._log.dataPath(), path(uri(file.path)))
        return bool(place.getFileSystem(self._log.newDeltaHadoopConf()).exists(place))

    def frame(self, version: int, files: Iterable[DataFile]) -> DataFrame:
        """The rows of some files, with the columns of a version; later commits do not change the plan."""
        added = sequence(self.session, map(self._added, files))
        return DataFrame(
            self._log.createDataFrame(self._snapshot(version), added, False, option(self.session)), self.session
        )

    def columns(self, version: int) -> str:
        return str(self._snapshot(version).metadata().schemaString())

    def table_id(self, version: int) -> str:
        """The id in Delta's metadata: a table that is dropped and made again has another one."""
        return str(self._snapshot(version).metadata().id())

    def metadata(self) -> TableMetadata:
        found = self._update().metadata()
        properties = {str(pair._1()): str(pair._2()) for pair in each_of(found.configuration())}
        partition_by = tuple(str(column) for column in each_of(found.partitionColumns()))
        return TableMetadata(str(found.schemaString()), partition_by, properties)

    def begin(self) -> Transaction:
        """A transaction on the newest version."""
        nothing = option(self.session)
        return Transaction(self.session, self._log.startTransaction(nothing, nothing))

    def folder(self) -> TableFolder:
        return TableFolder(self.session, self._log)

    def _commit_file(self, version: int) -> Any:
        file = self._java("util.FileNames").unsafeDeltaFile(self._log.logPath(), version)
        if not file.getFileSystem(self._log.newDeltaHadoopConf()).exists(file):
            raise VersionExpired(self.expired_message(version))
        return file

    @in_turn
    def _added(self, file: DataFile) -> Any:
        """The ``add`` action of a file, as Delta's Java object."""
        if file.path in self._actions:
            return self._actions[file.path]
        action = self._java("actions.Action").fromJson(file.added(changes=False))
        return keep(self._actions, file.path, action, _KEPT_ACTIONS)

    def _java(self, name: str) -> Any:
        return java_class(self.session, f"org.apache.spark.sql.delta.{name}")

    @property
    def _log(self) -> Any:
        if self._opened is None:
            self._opened = self._java("DeltaLog").forTable(self.session._jsparkSession, self.path)
        return self._opened

    def _update(self) -> Any:
        nothing = option(self.session)
        return self._log.update(False, nothing, nothing)

    @in_turn
    def _snapshot(self, version: int) -> Any:
        """Delta's snapshot of a version. Delta lists the log for each one but the newest, so some are cached.

        Raises:
            VersionExpired: the log files that it is made from have been cleaned away.
        """
        if version in self._snapshots:
            return self._snapshots[version]
        nothing = option(self.session)
        with self._explain_gone(version):
            found = self._log.getSnapshotAt(version, nothing, nothing)
        return keep(self._snapshots, version, found, _KEPT_VERSIONS)

    def _replay(self, version: int) -> dict[str, DataFile] | None:
        """The files of a version, replayed from an earlier known version or the first commit.

        None if that is too far away, or if commits in between have been cleaned away.
        """
        known = max((each for each in self._files if version - _STEPS <= each < version), default=BEFORE_ALL)
        if version - known > _STEPS:
            return None
        files: dict[str, DataFile] = self._files.get(known, {})
        for each in range(known + 1, version + 1):
            try:
                commit = self.commit(each)
            except VersionExpired:
                return None  # Delta reads a checkpoint instead
            except TableDamaged:
                if known == BEFORE_ALL:
                    return None
                raise
            files = commit.apply_to(files)
        return files

    def _list_files(self, version: int) -> dict[str, DataFile]:
        """The files of a version, listed by Delta's snapshot."""
        with self._explain_gone(version):
            listed = self._snapshot(version).allFiles().toJSON().collectAsList()
        files = (DataFile.from_action(json.loads(line)) for line in listed)
        return {file.path: file for file in files}

    @contextmanager
    def _explain_gone(self, version: int) -> Iterator[None]:
        """Raise `VersionExpired` if log files from which a version is read are missing."""
        try:
            yield
        except (Py4JError, PySparkException) as error:
            if Fault.behind(error).is_gone:
                raise VersionExpired(self.expired_message(version)) from error
            raise
