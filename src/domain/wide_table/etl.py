"""What the records of one topic say of a wide table's rows."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, removes
from ..dead_letter import or_else
from ..epoch import ABSENT, BATCH_COLUMNS, ERROR, POSITION, ROW_KIND
from ..topic_group import TOPIC, column_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..epoch import Batch
    from ..ports import FrameEngine, QueryEngine
    from ..sql import Expression
    from .settings import Derived, TopicSettings
    from .tables import Kept

ACTS = "_acts"
"""boolean: whether a row changes the table; others are passed over."""

_BATCH = "batch"
_WHERE, _COMES, _GOES, _PAIR, _PAIRED, _STAYS = "_where", "_comes", "_goes", "_pair", "_paired", "_stays"


@frozen(eq=False)
class TopicEtl:
    """Makes rows of the wide table of the records of one topic.

    Args:
        kept: the topic, and how it is kept.
        at: its place among the topics, from 0.
        topics: how many there are.
        engine: of the frames.
        queries: evaluates its SQL.
    """

    kept: Kept
    at: int
    topics: int
    engine: FrameEngine
    queries: QueryEngine

    @property
    def time(self) -> str:
        """The column of the rows' event time, where the topic has one."""
        return f"_time_{self.at}"

    def rows(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The topic's rows of a batch; None if it has none.

        They have the key, the topic's columns of the table, `TOPIC`, `ACTS`, `time` where the topic has an event time,
        and `BATCH_COLUMNS`; ``_error`` has the reason where a row cannot be used.
        """
        records = self._records(batch)
        if records is None:
            return None
        partial = ABSENT in records.collect_schema().names()
        rows = self._evaluated(records)
        rows = self._one_a_key(rows) if self._topic.generates else rows
        rows = self._checked(self._acting(rows, again=batch.again))
        return self._kept(rows, batch, partial=partial)

    def _records(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The topic's records under their own names; None if it has none."""
        given = batch.topics.get(self._topic.name) if batch.topics else batch.rows
        there = () if given is None else given.collect_schema().names()
        own = {name: column_of(self.at, name) for name in (*self._topic.schema.names, ABSENT)}
        told = [nw.col(taken).alias(name) for name, taken in own.items() if taken in there]
        if given is None or not told:
            return None
        rows = given if batch.topics else given.filter(nw.col(TOPIC) == self._topic.name)
        return rows.select(TOPIC, *told, *BATCH_COLUMNS)

    @property
    def _topic(self) -> TopicSettings:
        return self.kept.topic

    @property
    def _wanted(self) -> Iterator[tuple[str, Expression]]:
        """What is to be evaluated for each record, by the column that takes it."""
        for each in self._topic.columns:
            yield _of(each.name), each.expression
        for at, each in enumerate(self._topic.sequence):
            yield _place(at), each.expression
        if self._topic.where:
            yield _WHERE, self._topic.where

    def _evaluated(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        wanted = dict(self._wanted)
        if all(each.bare is not None for each in wanted.values()):
            rows = rows.with_columns(
                nw.col(self._declared(each.columns[0])).alias(name) for name, each in wanted.items()
            )
        else:
            listed = ", ".join(["*", *(f"{each.sql} AS `{name}`" for name, each in wanted.items())])
            rows = self._queried(f"SELECT {listed} FROM {_BATCH}", rows)  # noqa: S608 - parsed, and quoted
        typed = [(_of(each.name), each) for each in self._topic.columns]
        typed += [(_place(at), each) for at, each in enumerate(self._topic.sequence)]
        return rows.with_columns(nw.col(name).cast(each.type.narwhals) for name, each in typed)

    def _queried(self, sql: str, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        if not self._topic.generates:
            return self.queries.query(sql, {_BATCH: rows})
        # A table function makes no row of nothing: what could not be read must not get lost in it.
        rows, readable = self.engine.persist(rows), nw.col(ERROR).is_null()
        made = self.queries.query(sql, {_BATCH: rows.filter(readable)})
        return nw.concat([made, rows.filter(~readable)], how="diagonal")

    def _one_a_key(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Of rows that a table function made of one record for one key, that with the highest values."""
        own = [_of(name) for name in self.kept.names]
        return rows.unique(subset=[*self._keys, POSITION], keep="last", order_by=own)

    def _acting(self, rows: nw.LazyFrame[Any], *, again: bool) -> nw.LazyFrame[Any]:
        """Add what each row does: it comes, it goes, or it is passed over.

        Args:
            rows: of a batch.
            again: they are dead letters: an old image alone became one since its row had left its key.
        """
        kind = nw.col(ROW_KIND)
        goes = removes(kind)
        if self._topic.in_pairs:
            rows = self._paired(rows)
            moved = (nw.col(_PAIRED) | nw.lit(again)) & ~nw.col(_STAYS) & ~_any_null(self._keys)
            goes = (kind == DELETE) | ((kind == UPDATE_BEFORE) & moved)
        counts = nw.col(_WHERE).fill_null(value=False) if self._topic.where else nw.lit(value=True)
        comes = kind.is_in([INSERT, UPDATE_AFTER]) & counts
        rows = rows.with_columns(comes.fill_null(value=False).alias(_COMES), goes.fill_null(value=False).alias(_GOES))
        return rows.with_columns((nw.col(_COMES) | nw.col(_GOES)).alias(ACTS))

    def _paired(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add to old images whether their row stays under its key, and the sequence of their new images.

        A change of the key takes the row from the old one at the new image's sequence: else an older update of the old
        key that comes late would bring it back.
        """
        kind, position = nw.col(ROW_KIND), nw.col(POSITION)
        old, new = kind == UPDATE_BEFORE, kind == UPDATE_AFTER
        rows = rows.with_columns(nw.when(old).then(position + self.topics).otherwise(position).alias(_PAIR))
        one = nw.when(new).then(nw.lit(1))
        places = [_place(at) for at in range(len(self._topic.sequence))]
        rows = rows.with_columns(
            (~one.max().over(_PAIR).is_null()).alias(_PAIRED),
            (~one.max().over(_PAIR, *self._keys).is_null()).alias(_STAYS),
            *(nw.when(new).then(nw.col(name)).max().over(_PAIR).alias(f"_new{name}") for name in places),
        )
        placed = old & nw.col(_PAIRED)
        return rows.with_columns(
            nw.when(placed).then(nw.col(f"_new{name}")).otherwise(nw.col(name)).alias(name) for name in places
        )

    def _checked(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give every row that cannot be used its reason."""
        reason, acts = nw.col(ERROR), nw.col(ACTS)
        for name in self.kept.key:
            reason = or_else(reason, acts & nw.col(_of(name)).is_null(), f"key column {name} is null")
        places = [nw.col(_place(at)).is_null() for at in range(len(self._topic.sequence))]
        unplaced = reduce(lambda both, each: both & each, places)
        named = ", ".join(each.name for each in self._topic.sequence)
        text = f"sequence ({named}) is null throughout: nothing tells whether it is newer"
        return rows.with_columns(or_else(reason, acts & unplaced, text).alias(ERROR))

    def _kept(self, rows: nw.LazyFrame[Any], batch: Batch, *, partial: bool) -> nw.LazyFrame[Any]:
        """The rows as the table keeps them."""
        goes, kept = nw.col(_GOES), self.kept
        places = [nw.col(_place(at)) for at in range(len(self._topic.sequence))]
        columns = [nw.col(_of(name)).alias(name) for name in kept.key]
        columns += [place.alias(name) for place, name in zip(places, kept.sequence, strict=True)]
        columns += [nw.lit(batch.epoch.number).cast(nw.Int64).alias(kept.epoch), goes.alias(kept.deleted)]
        for each in self._topic.own(kept.key):
            value = nw.col(_of(each.name))
            if self._topic.by_column:
                speaks = goes | self._speaks(each, partial=partial)
                sequence = zip(places, kept.sequence_of(each.name), strict=True)
                columns += [nw.when(speaks).then(place).alias(name) for place, name in sequence]
                value = nw.when(speaks).then(value)
                columns.append(nw.when(~goes).then(value).alias(each.name))
            else:
                columns.append(nw.when(~goes).then(value).alias(each.name))
        if timed := self._topic.event_time:
            columns.append(nw.col(timed).alias(self.time))
        return rows.select(*columns, TOPIC, ACTS, *BATCH_COLUMNS)

    def _speaks(self, each: Derived, *, partial: bool) -> nw.Expr:
        """Whether a row that comes says anything of a column."""
        speaks = nw.lit(value=True)
        if self._topic.absent == "keep" and partial:
            for name in each.expression.columns:
                lacks = nw.col(ABSENT).str.contains(f"`{self._declared(name)}`", literal=True)
                speaks = speaks & ~lacks.fill_null(value=False)
        if self._topic.nulls == "keep":
            speaks = speaks & ~nw.col(_of(each.name)).is_null()
        return speaks

    @property
    def _keys(self) -> list[str]:
        return [_of(name) for name in self.kept.key]

    def _declared(self, name: str) -> str:
        """A column as the source declares it; letters' case does not count in SQL."""
        return next(each for each in self._topic.schema.names if each.lower() == name.lower())


def _of(name: str) -> str:
    return f"_of_{name}"


def _place(at: int) -> str:
    return f"_place_{at}"


def _any_null(names: list[str]) -> nw.Expr:
    return reduce(lambda either, each: either | each, (nw.col(name).is_null() for name in names))
