"""One commit, built with Delta's own optimistic transaction.

Delta's DataFrame writer does not return the version it made, silently skips a commit that it takes for a duplicate, and
cannot restore files and set a mark in one commit. Delta's transaction, on which that writer is built, can.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..spark.jvm import java_class, option, sequence
from .actions import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITER = "headwater"


@define(eq=False)
class Transaction:
    """Files to add and to remove, in one commit on top of the version `read_version`."""

    session: SparkSession
    _java: Any
    _actions: list[str] = field(init=False, factory=list)
    _definition: dict[str, Any] = field(init=False, factory=dict)

    @property
    def read_version(self) -> int:
        return int(self._java.readVersion())

    def write(self, rows: DataFrame) -> None:
        self._actions.extend(file.added(changes=True) for file in self._written(rows))

    @property
    def columns(self) -> str:
        """The columns of the version that this commit builds on, as JSON from Delta's metadata."""
        return str(self._java.metadata().schemaString())

    def redefine(self, schema_text: str) -> None:
        """Set the table's columns, as JSON for Delta's metadata. Call it before rows are written."""
        self._definition["schemaString"] = schema_text

    def define(self, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """Set the partition columns and properties of a new table. Call it before rows are written."""
        self._definition |= {"partitionColumns": list(partition_by), "configuration": dict(properties)}

    def _apply_definition(self) -> None:
        """Add the table's definition to the commit. Delta accepts it once, before the first row."""
        if not self._definition:
            return
        action = json.loads(self._java.metadata().json())
        action["metaData"] |= self._definition
        self._definition = {}
        self._java.updateMetadata(self._delta("actions.Action").fromJson(json.dumps(action)), False)

    def restore(self, files: Iterable[DataFile]) -> None:
        """Restore files of an earlier version."""
        self._actions.extend(file.added(changes=True) for file in files)

    def remove(self, files: Iterable[DataFile]) -> None:
        self._actions.extend(file.removed(changes=True) for file in files)

    def rewrite(self, files: Iterable[DataFile], rows: DataFrame) -> None:
        """Replace files by new files with the same rows."""
        self._actions.extend(file.removed(changes=False) for file in files)
        self._actions.extend(file.added(changes=False) for file in self._written(rows))

    def commit_marked(self, mark: str, sequence_number: int) -> int:
        """Commit an epoch; returns the new version.

        The mark is stored in the operation, which belongs to this commit only; a session setting would affect others.
        """
        nothing = option(self.session)
        # Act as if Delta had been asked for the writer's last transaction, so that the second of two writers fails. A
        # real query would rebuild the table's state; the store has checked the newest mark instead.
        getattr(self._java.readTxn(), "$plus$eq")(_WRITER)
        guard = {"appId": _WRITER, "version": sequence_number, "lastUpdated": time.time_ns() // 1_000_000}
        self._actions.append(json.dumps({"txn": guard}))
        mode = java_class(self.session, "org.apache.spark.sql.SaveMode").Append
        write = self._delta("DeltaOperations$Write")
        return self._commit(write(mode, nothing, nothing, option(self.session, mark)))

    def commit_upkeep(self) -> int:
        """Commit rewritten files; returns the new version. Rows added in the meantime do not conflict."""
        nobody = sequence(self.session, ())
        optimize = self._delta("DeltaOperations$Optimize")
        return self._commit(optimize(nobody, nobody, False, option(self.session), False))

    def _delta(self, name: str) -> Any:
        return java_class(self.session, f"org.apache.spark.sql.delta.{name}")

    def _commit(self, operation: Any) -> int:
        self._apply_definition()
        actions = map(self._delta("actions.Action").fromJson, self._actions)
        return int(self._java.commit(sequence(self.session, actions), operation))

    def _written(self, rows: DataFrame) -> list[DataFile]:
        self._apply_definition()
        written = self._java.writeFiles(rows._jdf)
        converters = java_class(self.session, "scala.collection.JavaConverters")
        actions = converters.seqAsJavaListConverter(written).asJava()
        return [DataFile.from_action(json.loads(action.json())["add"]) for action in actions]
