"""What of a view's changes is published, and how each change is told in JSON; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import field, frozen

from ..epoch import ROW_KIND
from ..errors import ConfigError
from ..schema import Schema, column
from .row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..epoch import Publication
    from ..service import ViewSpec

FEED_FORMATS = ("json", "upsert-json", "debezium-json")

Json: TypeAlias = "dict[str, Any]"
"""A JSON object."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Message:
    """One record: the key of a row, and what became of it; None is a tombstone."""

    key: Json
    value: Json | None


@frozen
class _Moved:
    """One row that came (no `before`), went (no `after`) or changed."""

    before: Json | None
    after: Json | None


@frozen
class Feed:
    """A view's changes as messages.

    Args:
        pipeline: whose view it is.
        view: which; its rows have a key.
        format: ``json``: the row with its row kind in a column more, as the JSON sources read a changelog;
            ``upsert-json``: the row, or a tombstone; ``debezium-json``: before, after and op.
        row_kind: the column for the row kind in ``json``.
        rename: columns of the view that have another name in the messages.
        tombstones: whether a delete in ``debezium-json`` is followed by a tombstone, so that compaction forgets it.
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
    def columns(self) -> Schema:
        """What `messages` takes: the view's columns, then the row kind."""
        return self.view.schema.plus(column(ROW_KIND, "string"))

    @property
    def _names(self) -> tuple[str, ...]:
        """The columns' names in the messages."""
        return tuple(self.rename.get(name, name) for name in self.view.schema.names)

    def messages(self, rows: Iterable[Sequence[Any]], publication: Publication) -> Iterator[Message]:
        """The messages of an epoch.

        Args:
            rows: net changes in the order of `columns`, values as JSON has them; a key's old row before its new one.
            publication: of the epoch.
        """
        key_names = [self.rename.get(name, name) for name in self.view.key]
        for moved in self._moved(rows):
            row = moved.after or moved.before or {}
            key = {name: row[name] for name in key_names}
            for value in self._values(moved, publication):
                yield Message(key, value)

    def _moved(self, rows: Iterable[Sequence[Any]]) -> Iterator[_Moved]:
        names, before = self._names, None
        for *values, kind in rows:
            row = dict(zip(names, values, strict=True))
            if kind == UPDATE_BEFORE:
                before = row
            elif kind == DELETE:
                yield _Moved(row, None)
            else:
                yield _Moved(before, row)
                before = None

    def _values(self, moved: _Moved, publication: Publication) -> Iterator[Json | None]:
        match self.format:
            case "json":
                return self._signed(moved)
            case "debezium-json":
                return self._enveloped(moved, publication)
            case _:
                return iter((moved.after,))

    def _signed(self, moved: _Moved) -> Iterator[Json]:
        came, went = (INSERT, DELETE) if moved.before is None or moved.after is None else (UPDATE_AFTER, UPDATE_BEFORE)
        for row, kind in ((moved.before, went), (moved.after, came)):
            if row is not None:
                yield {**row, self.row_kind: kind}

    def _enveloped(self, moved: _Moved, publication: Publication) -> Iterator[Json | None]:
        op = "c" if moved.before is None else "d" if moved.after is None else "u"
        at = (publication.published_at - _EPOCH) // timedelta(milliseconds=1)
        source = {
            "connector": "headwater",
            "db": self.pipeline,
            "table": self.view.name,
            "epoch": publication.epoch.number,
            "ts_ms": at,
        }
        yield {"before": moved.before, "after": moved.after, "op": op, "source": source, "ts_ms": at}
        if moved.after is None and self.tombstones:
            yield None
