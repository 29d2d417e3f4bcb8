"""The step of a view: recomputes the part of the view that the changes of its inputs affect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import narwhals as nw
from attrs import frozen

from ...epoch.batch import Batch, KeyedInput
from ...errors import BadInput, prefix_errors
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.change import Change, Matching
from ...table.collect import collect_small
from ...table.key_faults import key_faults
from ...table.net_changes import net_changes, to_change
from ...table.query_columns import match_names
from ...table.row_kind import ROW_KIND, removes
from ...table.view_spec import ViewSpec
from ..base import Step
from .declared_columns import check_declared
from .lookups import Lookups
from .names import name_of
from .plan import ViewPlan
from .routes import ReadRoutes, Routes
from .settings import ALL, ViewSettings
from .tables import AS_OF, CHANGED, EPOCH, KEYS, NET, READ, RECOMPUTED_COLUMNS, WHOLE, ViewTables, by

_NAME, _COUNT = "_what", "_count"


@frozen(eq=False)
class ViewStep:
    """The step of one view."""

    settings: ViewSettings
    tables: ViewTables
    routes: Routes
    view: ViewSpec
    engine: FrameEngine
    queries: QueryEngine

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        plan = ViewPlan.of(batch.offsets.until)
        changes = self._changes(_keyed_inputs(batch), plan, snapshot)
        if changes is None:
            return self._recompute_all(batch, plan, snapshot, 0)
        counts = self._count_rows(changes)
        changed_inputs = {name: changes[name] for name, count in counts.items() if count and name in self.routes.inputs}
        total = sum(counts.values())
        self.engine.expect(total)
        if any(self.settings.changes.get(name) == ALL for name in changed_inputs):
            return self._recompute_all(batch, plan, snapshot, total)
        try:
            return self._recompute_affected(batch, plan, snapshot, changed_inputs, total)
        except BadInput:  # of a row that the query may leave out, as its lookups know no WHERE; if not, this stops too
            return self._recompute_all(batch, plan, snapshot, total)

    def _changes(
        self, inputs: Mapping[str, KeyedInput], plan: ViewPlan, snapshot: Snapshot
    ) -> dict[str, nw.LazyFrame[Any]] | None:
        """The images of each input's changed rows, persisted; None if they are unknown or there is no view yet."""
        before = snapshot.publication
        if before is None or ViewPlan.of(before.offsets).settings != plan.settings:
            return None
        if any(snapshot.version(index.table.name) is None for index in self.tables.indexes.values()):
            return None  # an older release did not store this index
        found = {}
        for name, each in inputs.items():
            if (changed := each.changes()) is None:
                return None
            found[name] = self.engine.persist(changed)
        return found

    # ---- a part of the view ----------------------------------------------------------------------------------------

    def _recompute_affected(
        self,
        batch: Batch,
        plan: ViewPlan,
        snapshot: Snapshot,
        changed_inputs: Mapping[str, nw.LazyFrame[Any]],
        changed: int,
    ) -> Step:
        if not changed_inputs:
            return self._step({}, batch, plan, {CHANGED: 0, KEYS: 0, READ: 0, NET: 0})
        lookups = Lookups(self.tables, snapshot, _keyed_inputs(batch), changed_inputs, self.queries, self.engine)
        keys = self.engine.persist(nw.concat(list(self._affected_keys(lookups))).unique())
        parts = {name: self.engine.persist(self._needed_rows(name, keys, lookups)) for name in self.routes.inputs}
        scope = list(self.routes.scope)
        rows = self._run_query(parts).join(keys, on=scope, how="semi")
        rows = self.engine.persist(rows)
        self._check_key(rows)
        stored = snapshot.read(self.tables.rows.name, Matching(keys))
        net = self.engine.persist(net_changes(stored, rows, self.settings.key))
        counts = self._count_rows({KEYS: keys, NET: net, **{f"{READ}.{name}": part for name, part in parts.items()}})
        read = sum(count for name, count in counts.items() if name.startswith(f"{READ}."))
        changes = {self.tables.rows.name: to_change(net, self.view)} if counts[NET] else {}
        for index in self.tables.indexes.values():
            if index.input in changed_inputs:
                changes[index.table.name] = lookups.update_index(index)
        numbers = {CHANGED: changed, KEYS: counts[KEYS], READ: read, NET: counts[NET]}
        return self._step(changes, batch, plan, numbers)

    def _affected_keys(self, lookups: Lookups) -> Iterator[nw.LazyFrame[Any]]:
        """The values of the scope that changes affect, for each place where a changed input is read."""
        for name, images in lookups.changes.items():
            if (sql := self.settings.changes.get(name)) is not None:
                yield self._declared_keys(name, sql, lookups)
                continue
            for read in self.routes.of(name):
                yield self._traced_keys(read, images, lookups)

    def _traced_keys(self, read: ReadRoutes, images: nw.LazyFrame[Any], lookups: Lookups) -> nw.LazyFrame[Any]:
        assert read.upward is not None  # else its changes are declared
        start = {name_of(expr): expr for expr in read.upward.start}
        values = lookups.add_columns(images, start).select(*start).unique()
        found = lookups.follow(read.upward, values, both=True)
        return found.select(nw.col(by(at)).alias(name) for at, name in enumerate(self.routes.scope))

    def _declared_keys(self, name: str, sql: str, lookups: Lookups) -> nw.LazyFrame[Any]:
        """The affected values of the scope by the user-supplied query, over rows before and after the changes."""
        tables = {}
        for other, each in lookups.inputs.items():
            rows = each.rows()
            images = lookups.changes.get(other)
            if images is not None:
                columns = rows.collect_schema().names()
                old = images.filter(removes(nw.col(ROW_KIND))).select(*columns)
                rows = images.select(*columns) if other == name else nw.concat([rows, old])
            tables[other] = rows
        found = self.queries.query(sql, tables)
        with prefix_errors(f"pipelines.{self.settings.pipeline}.changes.{name}"):
            return self._select(found, self.routes.scope).drop_nulls().unique()

    def _needed_rows(self, name: str, keys: nw.LazyFrame[Any], lookups: Lookups) -> nw.LazyFrame[Any]:
        """The input rows that are needed to recompute these keys; there may be more."""
        reads = self.routes.of(name)
        downward = [read.downward for read in reads if read.downward]
        if len(downward) < len(reads):
            return lookups.inputs[name].rows()
        found = []
        start = keys.select(nw.col(each).alias(f"_-1_{each}") for each in self.routes.scope)
        for route in dict.fromkeys(downward):
            ends = lookups.follow(route, start, both=False)
            found.append(lookups.read_matching(name, [expr for _, expr in route.ends], ends, both=False))
        return found[0] if len(found) == 1 else nw.concat(found).unique(subset=list(self.tables.keys[name]))

    # ---- the whole view --------------------------------------------------------------------------------------------

    def _recompute_all(self, batch: Batch, plan: ViewPlan, snapshot: Snapshot, changed: int) -> Step:
        rows = self.engine.persist(self._run_query({name: each.rows() for name, each in batch.inputs.items()}))
        self._check_key(rows)
        table = self.tables.rows.name
        if snapshot.version(table) is None:
            changes = {table: Change(overwrite=rows)}
        else:
            net = self.engine.persist(net_changes(snapshot.read(table), rows, self.settings.key))
            changes = {table: to_change(net, self.view)}
        lookups = Lookups(self.tables, snapshot, _keyed_inputs(batch), {}, self.queries, self.engine)
        for index in self.tables.indexes.values():
            changes[index.table.name] = lookups.build_index(index)
        return self._step(changes, batch, plan, {CHANGED: changed})

    # ---- both ------------------------------------------------------------------------------------------------------

    def _run_query(self, tables: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
        """The query's rows whose key is not null."""
        rows = self.queries.query(self.settings.sql, tables)
        if (declared := self.settings.schema) is not None:
            with prefix_errors(f"pipelines.{self.settings.pipeline}.schema"):
                check_declared(declared, rows)
        return self._select(rows, self.view.schema.names).drop_nulls(subset=list(self.settings.key))

    def _select(self, rows: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
        """Columns of the view, in its types, from the result of a query, which may spell them in another case."""
        spelled = zip(names, match_names(names, rows.collect_schema().names()), strict=True)
        schema = self.view.schema
        return rows.select(nw.col(there).cast(schema[name].narwhals).alias(name) for name, there in spelled)

    def _check_key(self, rows: nw.LazyFrame[Any]) -> None:
        if shared := key_faults(rows, self.settings.key).shared:
            raise BadInput(
                f"view {self.settings.pipeline!r}: some rows share a key ({shared}); nothing was published: correct"
                " its query or its key"
            )

    def _count_rows(self, frames: Mapping[str, nw.LazyFrame[Any]]) -> dict[str, int]:
        """The number of rows of each frame, by its name."""
        counts = [
            frame.select(nw.len().cast(nw.Int64).alias(_COUNT)).with_columns(nw.lit(name).alias(_NAME))
            for name, frame in frames.items()
        ]
        return {row[_NAME]: int(row[_COUNT]) for row in collect_small(nw.concat(counts))}

    def _step(self, changes: dict[str, Change], batch: Batch, plan: ViewPlan, numbers: Mapping[str, int]) -> Step:
        whole = KEYS not in numbers
        row = {
            **dict.fromkeys((KEYS, READ, NET)),
            **numbers,
            EPOCH: batch.epoch.number,
            AS_OF: plan.as_of,
            WHOLE: whole,
        }
        changes[self.tables.recomputed.name] = Change(append=self.engine.frame([row], RECOMPUTED_COLUMNS))
        return Step(changes, numbers[CHANGED], 0, None, watermark=plan.watermark)


def _keyed_inputs(batch: Batch) -> Mapping[str, KeyedInput]:
    """The inputs of a view. They belong to other pipelines, and all have keys."""
    return cast("Mapping[str, KeyedInput]", batch.inputs)
