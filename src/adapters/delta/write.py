"""Applies a change to a table's files."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import narwhals as nw
from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Change
from ...domain.table.schema import Schema
from ..spark.jvm import sequence
from ..spark.merge import one_row_per_key
from ..spark.schema import named, typed
from ..spark.size import fits_one_task, measure, persist
from .actions import DataFile, total_bytes
from .compact import repartition
from .prune import prune
from .read import TableVersion
from .rows import as_rows, fold_rows, with_operation
from .spec import check_plain_names, schema_json
from .stored import APPENDED, has_log
from .transaction import Transaction

_FILE = "_headwater_file"
_REWRITTEN_WHOLE = 16 * 1024 * 1024
"""Up to this many bytes, all files that may hold a key are rewritten: faster than searching for those that do."""


def apply(change: Change, number: int, file_bytes: int, stored: TableVersion, transaction: Transaction) -> None:
    """Add a change to a transaction on a stored version; `file_bytes` is the target file size of a load, in bytes."""
    if change.load is not None:
        transaction.remove(stored.files)
        _load(change.load, number, file_bytes, stored, transaction)
        return
    if change.overwrite is not None:
        transaction.remove(stored.files)
        if stored.spec.whole:
            stored = _redefine(stored, Schema.of(change.overwrite), transaction)
    if has_log(stored.spec):
        _append(as_rows(change, stored.spec, number), stored, transaction)
    elif change.merge is None and change.delete is None:
        plain = None if change.added is None else typed(change.added.to_native(), stored.spec.schema)
        _append(plain, stored, transaction)
    else:
        _merge(change, stored, transaction)


def restore(wanted: TableVersion | None, stored: TableVersion, transaction: Transaction) -> None:
    """Restore an earlier version's files (None: no files) as part of a transaction."""
    if wanted is None:
        transaction.remove(stored.files)
        return
    if (columns := wanted.log.columns(wanted.version)) != transaction.columns:
        transaction.redefine(columns)  # columns added by the commits that are rolled back go too
    missing = wanted.files_not_in(stored)
    stored.log.check_present(wanted.version, missing)
    transaction.restore(missing)
    transaction.remove(stored.files_not_in(wanted))


def _redefine(stored: TableVersion, schema: Schema, transaction: Transaction) -> TableVersion:
    """The stored version with the columns of the rows that replace its content."""
    if schema != stored.spec.schema:
        check_plain_names(schema, stored.spec.name)
        transaction.redefine(schema_json(schema))
    return evolve(stored, spec=evolve(stored.spec, schema=schema))


def _append(rows: DataFrame | None, stored: TableVersion, transaction: Transaction) -> None:
    if rows is not None:
        transaction.write(_distribute(rows, stored.spec.partition_by))


def _load(
    rows: nw.LazyFrame[Any], number: int, file_bytes: int, stored: TableVersion, transaction: Transaction
) -> None:
    """Write many rows, one per key, in files of about the same size."""
    spec = stored.spec
    folded: DataFrame = one_row_per_key(rows, spec).to_native()
    with measure(folded) as size:
        plain = with_operation(folded, spec, number, APPENDED) if has_log(spec) else typed(folded, spec.schema)
        transaction.write(repartition(plain, spec, -(-size // file_bytes)))


def _merge(change: Change, stored: TableVersion, transaction: Transaction) -> None:
    """Rewrite the files that hold changed keys, with the change folded in."""
    incoming = as_rows(change, stored.spec, sequence=1)
    if incoming is None:
        return
    with persist(incoming):
        files = _touched(incoming, stored)
        there = with_operation(stored.stored(files), stored.spec, 0, APPENDED) if files else None
        rows = fold_rows(incoming if there is None else there.union(incoming), stored.spec)
        transaction.remove(files)
        # Cast to the table's types: a sum of decimals has more digits and could not be read with the other files.
        _append(typed(rows, stored.spec.schema), stored, transaction)


def _touched(incoming: DataFrame, stored: TableVersion) -> list[DataFile]:
    """The files that hold a key of the incoming rows, and perhaps some others."""
    spec = stored.spec
    files = _in_partitions(incoming, stored)
    if total_bytes(files) <= _REWRITTEN_WHOLE:
        return files
    keys = incoming.select(*map(named, spec.key)).distinct()
    rows = stored.log.frame(stored.version, files).withColumn(_FILE, F.input_file_name())
    held = rows.join(keys, list(spec.key), "left_semi").select(_FILE).distinct().collect()
    names = {_file_name(row[0]) for row in held}
    return [file for file in files if _file_name(file.path) in names]


def _file_name(path: str) -> str:
    """The last part of a path, which is unique: Delta adds a random identifier to it."""
    return unquote(path).rsplit("/", 1)[-1]


def _in_partitions(incoming: DataFrame, stored: TableVersion) -> list[DataFile]:
    """The files of the partitions that the incoming rows fall into."""
    columns = stored.spec.partition_by
    files = stored.files
    if not columns:
        return list(files)
    places = incoming.select(*map(named, columns)).distinct().collect()
    return prune(files, {name: tuple(place[name] for place in places) for name in columns}, stored.spec.schema)


def _distribute(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Distribute rows so that those of each partition are written together, in files of a suitable size.

    The hint goes through the JVM, because PySpark's `hint` takes no expressions. Without adaptive execution Spark only
    warns about the hint, so the rows stay as they are.
    """
    if fits_one_task(rows):
        return rows.coalesce(1)
    session = rows.sparkSession
    if session.conf.get("spark.sql.adaptive.enabled") != "true":
        return rows
    columns = sequence(session, (named(name)._jc.expr() for name in partition_by))
    return DataFrame(rows._jdf.hint("rebalance", columns), session)
