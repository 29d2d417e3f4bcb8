"""Turns a change into data files to add and to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from ....domain.table.apply import apply_change, touched_keys
from ....domain.table.change import Change, Matching
from ....domain.table.schema import Schema
from ....domain.table.spec import TableSpec
from ...polars.match import bounds_of
from ...polars.schema import collect, conform, lazy
from ...polars.sums import add_up
from ..actions import DataFile
from ..prune import prune
from ..spec import TableMetadata, check_plain_names, describe, schema_json, widen_schema
from ..stored import APPENDED, bounded_columns, has_log
from .mapping import physical_names, with_physical_names
from .rows import as_rows, one_row_per_key, with_operation

if TYPE_CHECKING:
    import polars as pl

    from .read import LocalVersion


@frozen(eq=False)
class Writing:
    """A prepared commit.

    Args:
        added: new files.
        removed: files that go.
        table: the table's new metadata; None if it stays as it is.
        written: the files of `added` that were written for this commit, and go if it fails.
    """

    added: tuple[DataFile, ...] = field(default=(), converter=tuple["DataFile", ...])
    removed: tuple[DataFile, ...] = field(default=(), converter=tuple["DataFile", ...])
    table: TableMetadata | None = None
    written: tuple[DataFile, ...] = field(default=(), converter=tuple["DataFile", ...])

    @property
    def only_adds(self) -> bool:
        """Whether it adds new rows and nothing else, so that it is the same upon other files with the same rows."""
        return not self.removed and self.table is None and self.written == self.added

    @property
    def actions(self) -> list[str]:
        """The add and remove actions, as JSON."""
        removed = [file.removed(changes=True) for file in self.removed]
        return [*removed, *(file.added(changes=True) for file in self.added)]


def prepare_change(change: Change, stored: LocalVersion, sequence: int, file_bytes: int) -> Writing:
    """Write the files of a change to a stored version; `file_bytes` is the target size of a load's files, in bytes."""
    spec = _spec_after(change, stored.spec)
    table = _new_metadata(spec, stored)
    files = evolve(stored.data, names=physical_names(table or stored.log.state(stored.version).table))
    gone = list(stored.files) if change.replaces else []
    bounded = bounded_columns(spec) if has_log(spec) else None
    if change.load is not None:
        rows = _load(change, spec, sequence)
        added = files.write(rows, bounded, parts=-(-int(rows.estimated_size()) // file_bytes))
    elif has_log(spec):
        found = as_rows(change, spec, sequence)
        added = [] if found is None else files.write(found, bounded)
    elif change.merge is None and change.delete is None:
        plain = None if change.added is None else conform(collect(change.added), spec.schema, spec.name)
        added = [] if plain is None else files.write(plain)
    else:
        rows, gone = _merge(change, stored)
        added = files.write(rows)
    return Writing(added, gone, table, added)


def prepare_restore(wanted: LocalVersion | None, stored: LocalVersion) -> Writing:
    """Restore an earlier version's files and columns; None: no files, and the columns stay."""
    if wanted is None:
        return Writing(removed=stored.files, table=_new_metadata(stored.spec, stored))
    missing = wanted.files_not_in(stored)
    stored.log.check_present(wanted.version, missing)
    then, now = (version.log.state(version.version).table for version in (wanted, stored))
    table = None if then.schema_text == now.schema_text else evolve(now, schema_text=then.schema_text)
    return Writing(missing, stored.files_not_in(wanted), table)


def _spec_after(change: Change, spec: TableSpec) -> TableSpec:
    """The spec with the columns that it has after a change."""
    if not spec.whole or change.overwrite is None:
        return spec
    schema = Schema.of(change.overwrite)
    check_plain_names(schema, spec.name)
    return evolve(spec, schema=schema)


def _new_metadata(spec: TableSpec, stored: LocalVersion) -> TableMetadata | None:
    """The metadata that the table gets with the commit; None if it stays as it is."""
    if stored.version < 0:
        return with_physical_names(describe(spec))
    there = stored.log.state(stored.version).table
    if spec.whole:
        text = schema_json(spec.schema)
        return None if text == there.schema_text or spec == stored.spec else evolve(there, schema_text=text)
    wider = widen_schema(spec, there.schema_text, empty=not stored.files)
    return None if wider is None else with_physical_names(evolve(there, schema_text=wider))


def _load(change: Change, spec: TableSpec, sequence: int) -> pl.DataFrame:
    """The rows of a load, one per key, sorted by key."""
    assert change.load is not None
    rows = one_row_per_key(change.load, spec)
    rows = with_operation(rows, spec, sequence, APPENDED) if has_log(spec) else conform(rows, spec.schema, spec.name)
    order = [*spec.partition_by, *spec.key]
    return rows.sort(order) if order else rows


def _merge(change: Change, stored: LocalVersion) -> tuple[pl.DataFrame, list[DataFile]]:
    """The rows of all files that may hold a changed key after the change, and these files."""
    spec = stored.spec
    keys = touched_keys(change, spec)
    assert keys is not None
    within = bounds_of(Matching(keys), spec.schema)
    files = prune(stored.files, within, spec.schema)
    there = stored.stored(files).collect()
    rows = collect(apply_change(lazy(there), change, spec, add_up))
    return conform(rows, spec.schema, spec.name), files
