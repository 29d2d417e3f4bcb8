"""The changes of an epoch: it replaces the published tables with the results of their queries, and adds a marker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
from attrs import frozen

from ...epoch.batch import Batch
from ...epoch.epoch import Epoch, Publication
from ...errors import BadInput, ConfigError, prefix_errors
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.change import Change
from ...table.column_checks import check_flat
from ...table.key_faults import key_faults
from ...table.schema import Schema
from ..base import Step
from .plan import Plan
from .settings import MARKERS, SnapshotSettings
from .tables import INPUTS, LABEL, MARKER, PLANNED_AT, VERSION, WATERMARK


@frozen(eq=False)
class SnapshotsStep:
    """The step of one snapshots pipeline."""

    settings: SnapshotSettings
    engine: FrameEngine
    queries: QueryEngine

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        plan = Plan.of(batch.offsets.until)
        tables = tuple(self._select_tables(plan, snapshot.publication))
        inputs = self._persist_shared({name: each.rows() for name, each in batch.inputs.items()}, tables)
        changes = {self._table_name(table): Change(overwrite=self._run_query(table, inputs)) for table in tables}
        return Step(changes | self.add_marker(batch.epoch, plan), 0, 0, plan.watermark)

    def _table_name(self, table: str) -> str:
        return f"{self.settings.pipeline}.{table}"

    def _select_tables(self, plan: Plan, before: Publication | None) -> Iterator[str]:
        """Select the tables to compute: all after an edit of queries or inputs, else those with a changed input.

        Tables without inputs are always selected. The others stay as they are in the version before.
        """
        last = Plan.of(before.offsets) if before else None
        last = last if last and last.settings == plan.settings else None
        for table in self.settings.tables:
            read = self.settings.inputs_of(table)
            if not read or last is None or any(not plan.reads_same(last, name) for name in read):
                yield table

    def _persist_shared(
        self, inputs: Mapping[str, nw.LazyFrame[Any]], tables: Sequence[str]
    ) -> dict[str, nw.LazyFrame[Any]]:
        """Return the inputs; an input that several of the tables' queries read is computed only once."""
        readers = Counter(name for table in tables for name in self.settings.inputs_of(table))
        return {name: self.engine.persist(rows) if readers[name] > 1 else rows for name, rows in inputs.items()}

    def _run_query(self, table: str, inputs: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
        """Compute the rows of a published table.

        Raises:
            ConfigError: a key column is missing, or a column has a name or a type that tables cannot hold.
            BadInput: a key is repeated, or is null.
        """
        rows = self.queries.query(self.settings.tables[table], inputs)
        with prefix_errors(f"table {table!r}"):
            columns = Schema.of(rows)
        self.settings.check_columns(table, columns.names)
        if not (key := self.settings.keys.get(table, ())):
            return rows
        if missing := [name for name in key if name not in columns]:
            raise ConfigError(
                f"table {table!r} has no column {missing[0]!r} of its key; it has: {', '.join(columns.names)}"
            )
        for name in key:
            check_flat(f"table {table!r}: key column {name!r}", columns[name])
        rows = self.engine.persist(rows)
        self._check_key(table, key, rows)
        return rows

    def _check_key(self, table: str, key: tuple[str, ...], rows: nw.LazyFrame[Any]) -> None:
        found, shown = key_faults(rows, key), ", ".join(key)
        if found.nulls:
            raise BadInput(f"table {table!r}: key ({shown}) is null in some rows; leave them out in its query")
        if found.shared:
            raise BadInput(
                f"table {table!r}: some rows share a key ({found.shared}); nothing was published: correct its query"
                " or keys"
            )

    def add_marker(self, epoch: Epoch, plan: Plan) -> dict[str, Change]:
        """Return the change that adds the marker of a version: one row."""
        marker = {
            VERSION: epoch.number,
            LABEL: plan.label,
            WATERMARK: plan.watermark,
            INPUTS: json.dumps(dict(plan.inputs), sort_keys=True),
            PLANNED_AT: plan.planned_at,
        }
        return {self._table_name(MARKERS): Change(append=self.engine.frame([marker], MARKER))}
