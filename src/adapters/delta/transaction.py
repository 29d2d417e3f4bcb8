"""One commit in the making, through Delta's own optimistic transaction.

Delta's DataFrame writer hides which version it made, silently skips what it takes for a repeat, and cannot take files
back and mark that in one commit. Its transaction, which the writer itself is built on, can.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..spark.jvm import java_class, option, sequence
from .actions import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

_WRITER = "headwater"


@define(eq=False)
class Transaction:
    """Files written and taken out, as one commit upon the version that `read_version` names."""

    session: SparkSession
    _java: Any
    _actions: list[str] = field(init=False, factory=list)
    _definition: dict[str, Any] = field(init=False, factory=dict)

    @property
    def read_version(self) -> int:
        """The version that this commit builds upon."""
        return int(self._java.readVersion())

    def write(self, rows: DataFrame) -> None:
        """Write rows as new files."""
        self._actions.extend(file.added(changes=True) for file in self._written(rows))

    @property
    def columns(self) -> str:
        """The columns of the version that this commit builds upon, as Delta's metadata tell them in JSON."""
        return str(self._java.metadata().schemaString())

    def redefine(self, schema_text: str) -> None:
        """Give the table other columns, told in JSON as Delta's metadata tell them; call it before rows are written."""
        self._definition["schemaString"] = schema_text

    def define(self, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """Say how a table is kept that is not there yet; call it before rows are written."""
        self._definition |= {"partitionColumns": list(partition_by), "configuration": dict(properties)}

    def _defined(self) -> None:
        """Make what was said of the table part of the commit, which Delta takes once, before the first row."""
        if not self._definition:
            return
        action = json.loads(self._java.metadata().json())
        action["metaData"] |= self._definition
        self._definition = {}
        self._java.updateMetadata(self._delta("actions.Action").fromJson(json.dumps(action)), False)

    def put(self, files: Iterable[DataFile]) -> None:
        """Bring back files of an earlier version."""
        self._actions.extend(file.added(changes=True) for file in files)

    def take(self, files: Iterable[DataFile]) -> None:
        """Take files out, with their rows."""
        self._actions.extend(file.removed(changes=True) for file in files)

    def rewrite(self, files: Iterable[DataFile], rows: DataFrame) -> None:
        """Put files with the same rows in the place of others."""
        self._actions.extend(file.removed(changes=False) for file in files)
        self._actions.extend(file.added(changes=False) for file in self._written(rows))

    def commit_marked(self, mark: str, sequence_number: int) -> int:
        """Commit work: the version made.

        The mark rides in the operation, which is this commit's alone, where the session's setting is everyone's.
        """
        nothing = option(self.session)
        # As if Delta had been asked for the writer's last transaction, so that it fails the second of two writers. To
        # ask really costs a rebuild of the table's state; the store has asked the newest mark instead.
        getattr(self._java.readTxn(), "$plus$eq")(_WRITER)
        guard = {"appId": _WRITER, "version": sequence_number, "lastUpdated": time.time_ns() // 1_000_000}
        self._actions.append(json.dumps({"txn": guard}))
        mode = java_class(self.session, "org.apache.spark.sql.SaveMode").Append
        write = self._delta("DeltaOperations$Write")
        return self._commit(write(mode, nothing, nothing, option(self.session, mark)))

    def commit_upkeep(self) -> int:
        """Commit rewritten files: the version made. Rows added in the meantime are no conflict."""
        nobody = sequence(self.session, ())
        optimize = self._delta("DeltaOperations$Optimize")
        return self._commit(optimize(nobody, nobody, False, option(self.session), False))

    def _delta(self, name: str) -> Any:
        return java_class(self.session, f"org.apache.spark.sql.delta.{name}")

    def _commit(self, operation: Any) -> int:
        self._defined()
        actions = map(self._delta("actions.Action").fromJson, self._actions)
        return int(self._java.commit(sequence(self.session, actions), operation))

    def _written(self, rows: DataFrame) -> list[DataFile]:
        self._defined()
        written = self._java.writeFiles(rows._jdf)
        converters = java_class(self.session, "scala.collection.JavaConverters")
        actions = converters.seqAsJavaListConverter(written).asJava()
        return [DataFile.from_action(json.loads(action.json())["add"]) for action in actions]
