"""What an epoch does: the answer of each query in the place of the one before, and a marker."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Change
from ..errors import BadInput, ConfigError
from ..key_faults import key_faults
from ..schema import Schema
from ..service import Step
from .plan import Plan
from .tables import INPUTS, LABEL, MARKER, MARKERS, PLANNED_AT, VERSION, WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..epoch import Batch, Publication
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from .settings import SnapshotSettings


@frozen(eq=False)
class SnapshotsStep:
    """The step of one snapshots pipeline."""

    settings: SnapshotSettings
    engine: FrameEngine
    queries: QueryEngine

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        plan = Plan.of(batch.offsets.until)
        tables = tuple(self._to_do(plan, snapshot.publication))
        inputs = self._shared({name: each.rows() for name, each in batch.inputs.items()}, tables)
        changes = {self._named(table): Change(overwrite=self._answer(table, inputs)) for table in tables}
        changes[self._named(MARKERS)] = Change(append=self._marker(batch, plan, snapshot))
        return Step(changes, 0, 0, plan.watermark)

    def _named(self, table: str) -> str:
        return f"{self.settings.pipeline}.{table}"

    def _to_do(self, plan: Plan, before: Publication | None) -> Iterator[str]:
        """The tables whose content may be another than in the version before: the others stay as they are."""
        last = Plan.of(before.offsets) if before else None
        was = last.inputs if last and last.settings == plan.settings else {}
        for table in self.settings.tables:
            read = self.settings.read_by(table)
            if not read or any(was.get(name) != plan.inputs[name] for name in read):
                yield table

    def _shared(self, inputs: Mapping[str, nw.LazyFrame[Any]], tables: Sequence[str]) -> dict[str, nw.LazyFrame[Any]]:
        """The inputs; those that several of these tables' queries read are computed once."""
        readers = Counter(name for table in tables for name in self.settings.read_by(table))
        return {name: self.engine.persist(rows) if readers[name] > 1 else rows for name, rows in inputs.items()}

    def _answer(self, table: str, inputs: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
        """The rows of a published table.

        Raises:
            ConfigError: it has no column of the key, or one that no table can hold.
            BadInput: rows share a key, or have none.
        """
        rows = self.queries.query(self.settings.tables[table], inputs)
        try:
            columns = Schema.of(rows)
        except ConfigError as error:
            raise ConfigError(f"table {table!r}: {error}") from error
        if not (key := self.settings.keys.get(table, ())):
            return rows
        if missing := [name for name in key if name not in columns]:
            raise ConfigError(
                f"table {table!r} has no column {missing[0]!r} of its key; it has: {', '.join(columns.names)}"
            )
        rows = self.engine.persist(rows)
        self._check_key(table, key, rows)
        return rows

    def _check_key(self, table: str, key: tuple[str, ...], rows: nw.LazyFrame[Any]) -> None:
        found, shown = key_faults(rows, key), ", ".join(key)
        if found.nulls:
            raise BadInput(f"table {table!r}: key ({shown}) is null in some rows; leave them out in its query")
        if found.shared:
            raise BadInput(
                f"table {table!r}: some rows share a key ({shown}); nothing was published: correct its query or keys"
            )

    def _marker(self, batch: Batch, plan: Plan, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """One row, made of a table's since a frame comes from nowhere else."""
        one = snapshot.store.read(self._named(MARKERS), None).select(nw.len().alias(VERSION))
        values = {
            VERSION: batch.epoch.number,
            LABEL: plan.label,
            WATERMARK: plan.watermark,
            INPUTS: json.dumps(dict(plan.inputs), sort_keys=True),
            PLANNED_AT: plan.planned_at,
        }
        return one.select(
            nw.lit(values[each.name]).cast(each.type.narwhals).alias(each.name) for each in MARKER.columns
        )
