"""A view's changes as JSON messages for a sink; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from attrs import field, frozen

from ..duration import EPOCH
from ..epoch.epoch import Publication
from ..errors import ConfigError
from ..table.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from ..table.schema import Schema, column
from ..table.view_spec import ViewSpec

FEED_FORMATS = ("json", "upsert-json", "debezium-json")

Json: TypeAlias = "dict[str, Any]"
"""A JSON object."""


@frozen
class Message:
    """One record: the key of a row, and its change; None is a tombstone."""

    key: Json
    value: Json | None


@frozen
class _RowChange:
    """One row that was inserted (no `before`), deleted (no `after`) or updated."""

    before: Json | None
    after: Json | None


@frozen
class Feed:
    """A view's changes as messages.

    Args:
        pipeline: the name of the view's pipeline.
        view: the view; its rows have a key.
        format: ``json``: the row with its row kind in an additional column, as JSON sources read a changelog;
            ``upsert-json``: the row, or a tombstone; ``debezium-json``: before, after and op.
        row_kind: the column for the row kind in ``json``.
        rename: columns of the view that have another name in the messages.
        tombstones: whether a delete in ``debezium-json`` is followed by a tombstone, so that log compaction removes
            the key.
    """

    pipeline: str
    view: ViewSpec
    format: str = "json"
    row_kind: str = "row_kind"
    tombstones: bool = True
    rename: Mapping[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.format not in FEED_FORMATS:
            raise ConfigError(f"unknown format {self.format!r}; known: {', '.join(FEED_FORMATS)}")
        for name in self.rename:
            if name not in self.view.schema:
                listed = ", ".join(self.view.schema.names)
                raise ConfigError(f"view {self.view.name!r} has no column {name!r} to rename; there are: {listed}")
        names = (*self._names, *([self.row_kind] if self.format == "json" else []))
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigError(
                f"messages would have {', '.join(sorted(twice))} twice; choose another name under rename or row_kind"
            )

    @property
    def name(self) -> str:
        """What a sink knows it by: the names of the pipeline and the view."""
        return f"{self.pipeline}.{self.view.name}"

    @property
    def shape(self) -> Json:
        """How a row becomes a message, for a sink to record: one reader must be able to read all of its messages."""
        row_kind = {"row_kind": self.row_kind} if self.format == "json" else {}
        fields = dict(zip(self.view.schema.names, self._names, strict=True))
        return {"format": self.format, **row_kind, "fields": fields}

    def differences(self, former: Json) -> list[str]:
        """The settings that differ from a former `shape`, for messages; of columns, only those that both have count."""
        now = self.shape
        settings = [(name, former.get(name), now.get(name)) for name in ("format", "row_kind")]
        fields = [(f"field of {name}", old, now["fields"].get(name)) for name, old in former["fields"].items()]
        both = ((what, old, new) for what, old, new in settings + fields if None not in {old, new})
        return [f"{what} {old} -> {new}" for what, old, new in both if old != new]

    @property
    def columns(self) -> Schema:
        """The columns of the rows that `messages` takes: the view's columns, then the row kind."""
        return self.view.schema.plus(column(ROW_KIND, "string"))

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns' names in the messages."""
        return tuple(self.rename.get(name, name) for name in self.view.schema.names)

    def messages(self, rows: Iterable[Sequence[Any]], publication: Publication) -> Iterator[Message]:
        """The messages of an epoch.

        Args:
            rows: net changes in the order of `columns`, with JSON values; a key's old row comes before its new one.
            publication: the epoch's publication.
        """
        key_names = [self.rename.get(name, name) for name in self.view.key]
        for change in self._row_changes(rows):
            row = change.after or change.before or {}
            key = {name: row[name] for name in key_names}
            for value in self._values(change, publication):
                yield Message(key, value)

    def _row_changes(self, rows: Iterable[Sequence[Any]]) -> Iterator[_RowChange]:
        names, before = self._names, None
        for *values, kind in rows:
            row = dict(zip(names, values, strict=True))
            if kind == UPDATE_BEFORE:
                before = row
            elif kind == DELETE:
                yield _RowChange(row, None)
            else:
                yield _RowChange(before, row)
                before = None

    def _values(self, change: _RowChange, publication: Publication) -> Iterator[Json | None]:
        match self.format:
            case "json":
                return self._with_row_kind(change)
            case "debezium-json":
                return self._with_envelope(change, publication)
            case _:
                return iter((change.after,))

    def _with_row_kind(self, change: _RowChange) -> Iterator[Json]:
        is_update = change.before is not None and change.after is not None
        new, old = (UPDATE_AFTER, UPDATE_BEFORE) if is_update else (INSERT, DELETE)
        for row, kind in ((change.before, old), (change.after, new)):
            if row is not None:
                yield {**row, self.row_kind: kind}

    def _with_envelope(self, change: _RowChange, publication: Publication) -> Iterator[Json | None]:
        op = "c" if change.before is None else "d" if change.after is None else "u"
        at = (publication.published_at - EPOCH) // timedelta(milliseconds=1)
        source = {
            "connector": "headwater",
            "db": self.pipeline,
            "table": self.view.name,
            "epoch": publication.epoch.number,
            "ts_ms": at,
        }
        yield {"before": change.before, "after": change.after, "op": op, "source": source, "ts_ms": at}
        if change.after is None and self.tombstones:
            yield None
