"""Converts the records of one topic to rows of the wide table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw
from attrs import frozen

from ...epoch.batch import ABSENT, BATCH_COLUMNS, ERROR, ORIGIN, RAW, Batch
from ...ports import FrameCache, QueryEngine
from ...source.dead_letter import or_else
from ...source.topic_group import TOPIC, column_of
from ...sql import Expression
from ...table.change import POSITION
from ...table.key_faults import lacks_key
from ...table.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE, removes
from .settings import Derived, TopicSettings
from .tables import TopicColumns

ACTS = "_acts"
"""boolean: whether a row changes the table. Other rows are skipped."""

_BATCH = "batch"
_RECORD = (ORIGIN, RAW)
_EMPTY = "_empty"
"""True for a new image for which a table function returned no row."""
_WHERE, _UPSERTS, _DELETES, _PAIR, _PAIRED, _STAYS = "_where", "_upserts", "_deletes", "_pair", "_paired", "_stays"


@frozen(eq=False)
class TopicEtl:
    """Converts the records of one topic to rows of the wide table.

    Args:
        columns: the topic, and its columns in the wide table.
        at: the index of the topic, from 0.
        topics: the number of topics.
        engine: the engine of the frames.
        queries: evaluates the topic's SQL.
    """

    columns: TopicColumns
    at: int
    topics: int
    engine: FrameCache
    queries: QueryEngine

    @property
    def time(self) -> str:
        """The column of the rows' event time, if the topic has one."""
        return f"_time_{self.at}"

    def rows(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """Return the topic's rows of a batch; None if there are none.

        Columns: the key, the topic's columns in the wide table, `TOPIC`, `ACTS`, `time` if the topic has an event time,
        and `BATCH_COLUMNS`. A row that cannot be used has its reason in ``_error``.
        """
        records = self._records(batch)
        if records is None:
            return None
        partial = ABSENT in records.collect_schema().names()
        rows = self._evaluate(records)
        rows = self._keep_one_per_key(rows) if self._topic.generates else rows
        rows = self._check(self._add_actions(rows, replay=batch.replay))
        return self._to_table_columns(rows, batch, partial=partial)

    def _records(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """Return the topic's records with their own column names; None if there are none."""
        rows = batch.topics.get(self._topic.name) if batch.topics else batch.rows
        names = () if rows is None else rows.collect_schema().names()
        own = {name: column_of(self.at, name) for name in (*self._topic.schema.names, ABSENT)}
        columns = [nw.col(in_group).alias(name) for name, in_group in own.items() if in_group in names]
        if rows is None or not columns:
            return None
        rows = rows if batch.topics else rows.filter(nw.col(TOPIC) == self._topic.name)
        return rows.select(TOPIC, *columns, *BATCH_COLUMNS)

    @property
    def _topic(self) -> TopicSettings:
        return self.columns.topic

    @property
    def _expressions(self) -> Iterator[tuple[str, Expression]]:
        """The expressions to evaluate for each record, by the name of the result column."""
        for each in self._topic.columns:
            yield _of(each.name), each.expression
        for at, each in enumerate(self._topic.sequence):
            yield _sequence(at), each.expression
        if self._topic.where:
            yield _WHERE, self._topic.where

    def _evaluate(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        expressions = dict(self._expressions)
        if self._topic.generates:
            rows = self._generate(rows, expressions)
        elif all(each.bare is not None for each in expressions.values()):
            rows = rows.with_columns(
                nw.col(self._declared(each.columns[0])).alias(name) for name, each in expressions.items()
            )
        else:
            rows = self._select(rows, expressions)
        results = [(_of(each.name), each) for each in self._topic.columns]
        results += [(_sequence(at), each) for at, each in enumerate(self._topic.sequence)]
        return rows.with_columns(nw.col(name).cast(each.type.narwhals) for name, each in results)

    def _select(self, rows: nw.LazyFrame[Any], expressions: Mapping[str, Expression]) -> nw.LazyFrame[Any]:
        select = ", ".join(["*", *(f"{each.sql} AS `{name}`" for name, each in expressions.items())])
        return self.queries.query(f"SELECT {select} FROM {_BATCH}", {_BATCH: rows})  # noqa: S608 - parsed, and quoted

    def _generate(self, rows: nw.LazyFrame[Any], expressions: Mapping[str, Expression]) -> nw.LazyFrame[Any]:
        """Evaluate table functions, which return no row for an empty list.

        A row that could not be decoded must not go through them. A new image must leave a row, with its sequence: it
        deletes its key, or, if a table function makes the key, its old image has keys to delete. A delete must leave
        one unless it is known to have no key.
        """
        rows, readable = self.engine.persist(rows), nw.col(ERROR).is_null()
        generated = self._select(rows.filter(readable), expressions)
        if not self._topic.changes:
            return nw.concat([generated, rows.filter(~readable)], how="diagonal")
        generated = self.engine.persist(generated)
        empty = rows.filter(readable).join(generated.select(POSITION).unique(), on=POSITION, how="anti")
        sequence = {name: expressions[name] for name in map(_sequence, range(len(self._topic.sequence)))}
        parts = [generated, self._select_deletes(empty, expressions, sequence), rows.filter(~readable)]
        if self._topic.in_pairs:
            keys = {name: expressions[name] for name in self._keys} if self._has_key_without_list else {}
            new = self._select(empty.filter(nw.col(ROW_KIND) == UPDATE_AFTER), {**keys, **sequence})
            parts.append(new.with_columns(nw.lit(value=True).alias(_EMPTY)))
        return nw.concat(parts, how="diagonal")

    def _select_deletes(
        self, empty: nw.LazyFrame[Any], expressions: Mapping[str, Expression], sequence: Mapping[str, Expression]
    ) -> nw.LazyFrame[Any]:
        """Return the deletes among rows for which a table function returned no row, with their sequence and key.

        If the function makes a key column, that one is null. A record that lacks a column which it reads becomes a dead
        letter so; of an empty list there is nothing to delete.
        """
        kind, keys = nw.col(ROW_KIND), {name: expressions[name] for name in self._keys}
        lists = {name for each in keys.values() if each.generates for name in each.columns}
        deletes = kind == DELETE if self._topic.in_pairs else removes(kind)
        if lists:
            partial = ABSENT in empty.collect_schema().names()
            absent = [self._is_absent(name) for name in sorted(lists)] if partial else [nw.lit(value=False)]
            deletes = deletes & nw.any_horizontal(*absent, ignore_nulls=True)
        fixed = {name: each for name, each in keys.items() if not each.generates}
        return self._select(empty.filter(deletes), {**fixed, **sequence})

    def _keep_one_per_key(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Keep one row per record and key, the one with the highest values: a table function may return several."""
        own = [_of(name) for name in self.columns.names]
        return rows.unique(subset=[*self._keys, POSITION], keep="last", order_by=own)

    def _add_actions(self, rows: nw.LazyFrame[Any], *, replay: bool) -> nw.LazyFrame[Any]:
        """Add the action of each row: it upserts, it deletes, or it is skipped.

        Args:
            rows: the rows of a batch.
            replay: whether the rows are dead letters. An old image without its new image deletes then, because it
                became a dead letter when the key changed.
        """
        kind = nw.col(ROW_KIND)
        deletes = removes(kind)
        if self._topic.in_pairs:
            rows = self._add_pairs(rows, replay=replay)
            leaves_key = (nw.col(_PAIRED) | nw.lit(replay)) & ~nw.col(_STAYS) & ~lacks_key(self._keys)
            deletes = (kind == DELETE) | ((kind == UPDATE_BEFORE) & leaves_key)
            if self._topic.generates and self._has_key_without_list:
                deletes = deletes | ~nw.col(_EMPTY).is_null()
        matches = nw.col(_WHERE).fill_null(value=False) if self._topic.where else nw.lit(value=True)
        upserts = kind.is_in([INSERT, UPDATE_AFTER]) & matches
        if self._topic.generates and self._topic.in_pairs:
            upserts = upserts & nw.col(_EMPTY).is_null()
        rows = rows.with_columns(
            upserts.fill_null(value=False).alias(_UPSERTS), deletes.fill_null(value=False).alias(_DELETES)
        )
        return rows.with_columns((nw.col(_UPSERTS) | nw.col(_DELETES)).alias(ACTS))

    def _add_pairs(self, rows: nw.LazyFrame[Any], *, replay: bool) -> nw.LazyFrame[Any]:
        """Add to old images whether the row keeps its key, and the sequence and owner's event time of the new image.

        A change of the key deletes the old key with the sequence of the new image. With its own sequence, a late update
        of the old key could bring the row back. Its own event time may be long before the change. In a replay the two
        images of a record may be two dead letters.
        """
        kind, position = nw.col(ROW_KIND), nw.col(POSITION)
        old, new = kind == UPDATE_BEFORE, kind == UPDATE_AFTER
        pair = nw.when(old).then(position + self.topics).otherwise(position)
        if replay:
            both = _only(old) & _only(new)
            pair = nw.when(both & (old | new)).then(nw.when(new).then(position).max().over(*_RECORD)).otherwise(pair)
        rows = rows.with_columns(pair.alias(_PAIR))
        one = nw.when(new).then(nw.lit(1))
        taken = [_sequence(at) for at in range(len(self._topic.sequence))]
        if self._topic.owner and self._topic.event_time:
            taken.append(self._topic.event_time)
        rows = rows.with_columns(
            (~one.max().over(_PAIR).is_null()).alias(_PAIRED),
            (~one.max().over(_PAIR, *self._keys).is_null()).alias(_STAYS),
            *(nw.when(new).then(nw.col(name)).max().over(_PAIR).alias(f"_new_{name}") for name in taken),
        )
        has_new = old & nw.col(_PAIRED)
        return rows.with_columns(
            nw.when(has_new).then(nw.col(f"_new_{name}")).otherwise(nw.col(name)).alias(name) for name in taken
        )

    def _check(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give a reason in `_error` to each row that cannot be used."""
        reason, acts = nw.col(ERROR), nw.col(ACTS)
        for name in self.columns.key:
            reason = or_else(reason, acts & nw.col(_of(name)).is_null(), f"key column {name} is null")
        nulls = (nw.col(_sequence(at)).is_null() for at in range(len(self._topic.sequence)))
        all_null = nw.all_horizontal(*nulls, ignore_nulls=False)
        names = ", ".join(each.name for each in self._topic.sequence)
        text = f"sequence ({names}) has only nulls: it is unknown whether it is newer"
        return rows.with_columns(or_else(reason, acts & all_null, text).alias(ERROR))

    def _to_table_columns(self, rows: nw.LazyFrame[Any], batch: Batch, *, partial: bool) -> nw.LazyFrame[Any]:
        """Return the rows with the columns of the wide table."""
        deletes, own = nw.col(_DELETES), self.columns
        sequence = [nw.col(_sequence(at)) for at in range(len(self._topic.sequence))]
        columns = [nw.col(_of(name)).alias(name) for name in own.key]
        columns += [part.alias(name) for part, name in zip(sequence, own.sequence, strict=True)]
        columns += [nw.lit(batch.epoch.number).cast(nw.Int64).alias(own.epoch), deletes.alias(own.deleted)]
        for each in self._topic.own(own.key):
            value = nw.col(_of(each.name))
            if self._topic.by_column:
                is_set = deletes | self._sets(each, partial=partial)
                parts = zip(sequence, own.sequence_of(each.name), strict=True)
                columns += [nw.when(is_set).then(part).alias(name) for part, name in parts]
                value = nw.when(is_set).then(value)
            columns.append(nw.when(~deletes).then(value).alias(each.name))
        if event_time := self._topic.event_time:
            columns.append(nw.col(event_time).alias(self.time))
        return rows.select(*columns, TOPIC, ACTS, *BATCH_COLUMNS)

    def _sets(self, each: Derived, *, partial: bool) -> nw.Expr:
        """Whether a row sets a column; with ``keep``, absent fields and nulls do not."""
        sets = nw.lit(value=True)
        if self._topic.absent == "keep" and partial:
            for name in each.expression.columns:
                sets = sets & ~self._is_absent(name)
        if self._topic.nulls == "keep":
            sets = sets & ~nw.col(_of(each.name)).is_null()
        return sets

    def _is_absent(self, name: str) -> nw.Expr:
        """Whether a record lacks a column; its rows must list absent columns."""
        return nw.col(ABSENT).str.contains(f"`{self._declared(name)}`", literal=True).fill_null(value=False)

    @property
    def _has_key_without_list(self) -> bool:
        """Whether no table function makes a column of the key."""
        return not any(each.expression.generates for each in self._topic.columns if each.name in self.columns.key)

    @property
    def _keys(self) -> list[str]:
        return [_of(name) for name in self.columns.key]

    def _declared(self, name: str) -> str:
        """The name of a column as the source declares it; SQL ignores upper and lower case."""
        return next(each for each in self._topic.schema.names if each.lower() == name.lower())


def _of(name: str) -> str:
    return f"_of_{name}"


def _sequence(at: int) -> str:
    return f"_sequence_{at}"


def _only(image: nw.Expr) -> nw.Expr:
    """Whether a record has one image of a kind; a record that has come twice has two."""
    position = nw.when(image).then(nw.col(POSITION))
    return position.min().over(*_RECORD) == position.max().over(*_RECORD)
