"""Commits of a Delta log, parsed from their JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from attrs import frozen

from ..shared.utf8 import check_utf8
from .stored import APPENDED, DELETED, OPERATION

ACTIONS = "numActions"
"""Of the metrics of a commit that the local engine has written: the number of its lines."""

PartitionValues: TypeAlias = "tuple[tuple[str, str | None], ...]"
"""A partition: the name and the value (as text) of each partition column."""
_BODIES = ("add", "remove", "metaData", "protocol", "commitInfo")
_PLANE = 0x10000
"""The number of characters of a plane of Unicode."""


def action_json(action: Mapping[str, Any]) -> str:
    """An action as a line of the log. Its texts are UTF-8: delta-rs misreads escapes such as that of U+20BB7."""
    return json.dumps(action, ensure_ascii=False)


@frozen(eq=False)
class DataFile:
    """One data file: its path, its partition, its size in bytes and the statistics of its rows.

    `action` is the body of its ``add`` action. Bounds are by column, as Delta writes them.
    """

    path: str
    partition: Mapping[str, str | None]
    size: int
    rows: int | None
    lowest: Mapping[str, Any]
    highest: Mapping[str, Any]
    action: Mapping[str, Any]

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> DataFile:
        stats = json.loads(action.get("stats") or "{}", parse_float=Decimal)  # a float would round a bound
        return cls(
            action["path"],
            action["partitionValues"],
            action["size"],
            stats.get("numRecords"),
            stats.get("minValues", {}),
            {name: _not_below(bound) for name, bound in stats.get("maxValues", {}).items()},
            action,
        )

    @property
    def may_append(self) -> bool:
        """Whether it may have rows that were appended, or written by a compaction."""
        return bool(self.lowest.get(OPERATION, APPENDED) == APPENDED)

    @property
    def may_change(self) -> bool:
        """Whether a row of it may change another row of its key."""
        return bool(self.highest.get(OPERATION, DELETED) != APPENDED)

    @property
    def may_delete(self) -> bool:
        """Whether a row of it may delete another row of its key."""
        return bool(self.highest.get(OPERATION, DELETED) == DELETED)

    @property
    def only_deletes(self) -> bool:
        """Whether each row of it deletes the rows of its key."""
        return bool(self.lowest.get(OPERATION) == DELETED)

    def added(self, *, changes: bool) -> str:
        """The ``add`` action as JSON; `changes` is False if the file only holds rows moved from other files."""
        return action_json({"add": {**self.action, "dataChange": changes}})

    def removed(self, *, changes: bool) -> str:
        body = {
            "path": self.path,
            "deletionTimestamp": time.time_ns() // 1_000_000,  # from now on only older versions need the file
            "dataChange": changes,
            "extendedFileMetadata": True,
            "partitionValues": self.partition,
            "size": self.size,
        }
        return action_json({"remove": body})

    @property
    def place(self) -> PartitionValues:
        """The partition as a value that can be compared and hashed."""
        return tuple(sorted(self.partition.items()))


def _not_below(bound: Any) -> Any:
    """A highest value that is not too low, even if delta-rs has misread the escapes of earlier versions of Headwater.

    In its checkpoints, U+10BB7 may then stand for U+20BB7: a character of an odd plane for that of the next one.
    """
    if not isinstance(bound, str) or bound.isascii():
        return bound
    return "".join(chr(ord(each) + _PLANE) if ord(each) // _PLANE % 2 else each for each in bound)


def by_partition(files: Iterable[DataFile]) -> dict[PartitionValues, list[DataFile]]:
    """The files of each partition, in their order."""
    found: dict[PartitionValues, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.place, []).append(file)
    return found


def total_bytes(files: Iterable[DataFile]) -> int:
    """The size of files, in bytes."""
    return sum(file.size for file in files)


def _parse_action(number: int, line: str) -> dict[str, Any]:
    """The action of a line of a commit.

    Raises:
        ValueError: it is not a JSON object, or the body of an action that is read here is not one.
    """
    action = json.loads(line)
    if not isinstance(action, dict) or not all(isinstance(action.get(name, {}), dict) for name in _BODIES):
        raise ValueError(f'line {number} must be an action, such as {{"add": {{…}}}}, not {line[:40]}')
    return action


@frozen(eq=False)
class CommitFile:
    """One commit: its time (UTC), its user metadata, and the files that it added and removed.

    `rewrites` is true if the commit removed existing rows; compaction, which only moves rows, does not. `metadata` and
    `protocol` are the bodies of these actions; None if the commit leaves them as they are. `written_by` is the name of
    the program.
    """

    committed_at: datetime
    user_metadata: str | None
    added: tuple[DataFile, ...]
    removed: frozenset[str]
    rewrites: bool
    metadata: Mapping[str, Any] | None = None
    protocol: Mapping[str, Any] | None = None
    written_by: str = "another program"

    @classmethod
    def parse(cls, text: str) -> CommitFile:
        """A commit from its file.

        Raises:
            ValueError, KeyError: the file is empty, cut off or damaged.
        """
        check_utf8(text)
        # Not `splitlines`: Spark writes other line separators, such as U+2028, as they are.
        actions = [_parse_action(*line) for line in enumerate(text.split("\n"), 1) if line[1].strip()]
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if len(actions) < int((info.get("operationMetrics") or {}).get(ACTIONS, 1)):
            raise ValueError("it is cut off" if actions else "it is empty")
        removed = [action["remove"] for action in actions if "remove" in action]
        return cls(
            datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC),
            info.get("userMetadata"),
            tuple(DataFile.from_action(action["add"]) for action in actions if "add" in action),
            frozenset(action["path"] for action in removed),
            any(action.get("dataChange", True) for action in removed),
            next((action["metaData"] for action in actions if "metaData" in action), None),
            next((action["protocol"] for action in actions if "protocol" in action), None),
            info.get("engineInfo") or "another program",
        )

    @property
    def is_foreign(self) -> bool:
        """Whether another program has added or removed rows: such commits of Headwater have a mark."""
        changes = self.rewrites or any(file.action.get("dataChange", True) for file in self.added)
        return changes and self.user_metadata is None

    @property
    def is_upkeep(self) -> bool:
        """Whether it only rewrites files: rows and columns stay as they are."""
        is_plain = self.user_metadata is None and self.metadata is None and self.protocol is None
        return is_plain and not self.is_foreign

    @property
    def written(self) -> int | None:
        """The number of rows in its files; None if a file has no row count."""
        counts = [file.rows for file in self.added]
        return None if None in counts else sum(count for count in counts if count)

    def apply_to(self, files: Mapping[str, DataFile]) -> dict[str, DataFile]:
        """The data files after this commit, given those before it."""
        kept = {path: file for path, file in files.items() if path not in self.removed}
        return kept | {file.path: file for file in self.added}
