"""What a change does to a table's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.schema import Schema
from ..spark.jvm import sequence
from ..spark.merging import one_a_key
from ..spark.schema import named, spark_schema, typed
from ..spark.size import fits_one_task, kept, measured
from .compaction import in_parts
from .definition import check_plain_names
from .pruning import prune
from .rows import APPENDED, as_rows, content, logged, operating

if TYPE_CHECKING:
    import narwhals as nw

    from ...domain.change import Change
    from .actions import DataFile
    from .reading import Reading
    from .transaction import Transaction

_FILE = "_file"
_REWRITTEN_WHOLE = 16 * 1024 * 1024
"""Bytes up to which all files that may hold a key are written again: quicker than to look for those that do."""


def apply(change: Change, number: int, file_bytes: int, stored: Reading, transaction: Transaction) -> None:
    """Make a change part of a transaction upon a stored version; `file_bytes` is how large files of a load are."""
    if change.load is not None:
        transaction.take(stored.files)
        _load(change.load, number, file_bytes, stored, transaction)
        return
    if change.overwrite is not None:
        transaction.take(stored.files)
        if stored.spec.whole:
            stored = _redefined(stored, Schema.of(change.overwrite), transaction)
    if logged(stored.spec):
        _append(as_rows(change, stored.spec, number), stored, transaction)
    elif change.merge is None and change.delete is None:
        added = change.append if change.overwrite is None else change.overwrite
        _append(None if added is None else typed(added.to_native(), stored.spec.schema), stored, transaction)
    else:
        _merge(change, stored, transaction)


def restore(wanted: Reading | None, stored: Reading, transaction: Transaction) -> None:
    """Bring an earlier version's files back (None: no files) as part of a transaction."""
    if wanted is None:
        transaction.take(stored.files)
        return
    if (columns := wanted.log.columns(wanted.version)) != transaction.columns:
        transaction.redefine(columns)  # those that came with the work that is taken back go too
    missing = wanted.files_not_in(stored)
    stored.log.check_present(wanted.version, missing)
    transaction.put(missing)
    transaction.take(stored.files_not_in(wanted))


def _redefined(stored: Reading, schema: Schema, transaction: Transaction) -> Reading:
    """The stored version, of which nothing stays, in the columns of what takes its place."""
    if schema != stored.spec.schema:
        check_plain_names(schema, stored.spec.name)
        transaction.redefine(spark_schema(schema).json())
    return evolve(stored, spec=evolve(stored.spec, schema=schema))


def _append(rows: DataFrame | None, stored: Reading, transaction: Transaction) -> None:
    if rows is not None:
        transaction.write(_arranged(rows, stored.spec.partition_by))


def _load(rows: nw.LazyFrame[Any], number: int, file_bytes: int, stored: Reading, transaction: Transaction) -> None:
    """Write many rows, one a key, in files of about one size."""
    spec = stored.spec
    folded: DataFrame = one_a_key(rows, spec).to_native()
    with measured(folded) as size:
        plain = operating(folded, spec, number, APPENDED) if logged(spec) else typed(folded, spec.schema)
        transaction.write(in_parts(plain, spec, -(-size // file_bytes)))


def _merge(change: Change, stored: Reading, transaction: Transaction) -> None:
    """Write the files that hold touched keys again, with the change folded in."""
    incoming = as_rows(change, stored.spec, sequence=1)
    if incoming is None:
        return
    with kept(incoming):
        files = _touched(incoming, stored)
        there = operating(stored.stored(files), stored.spec, 0, APPENDED) if files else None
        rows = content(incoming if there is None else there.union(incoming), stored.spec)
        transaction.take(files)
        # In exactly the table's types: a sum of decimals has more digits, and could not be read with the other files.
        _append(typed(rows, stored.spec.schema), stored, transaction)


def _touched(incoming: DataFrame, stored: Reading) -> list[DataFile]:
    """The files that hold a key of the incoming rows, and perhaps some more."""
    spec = stored.spec
    files = _in_partitions(incoming, stored)
    if sum(file.size for file in files) <= _REWRITTEN_WHOLE:
        return files
    keys = incoming.select(*map(named, spec.key)).distinct()
    rows = stored.log.frame(stored.version, files).withColumn(_FILE, F.input_file_name())
    held = rows.join(keys, list(spec.key), "left_semi").select(_FILE).distinct().collect()
    names = {_file_name(row[0]) for row in held}
    return [file for file in files if _file_name(file.path) in names]


def _file_name(path: str) -> str:
    """The last part of a path, which is unique: Delta puts a random identifier into it."""
    return unquote(path).rsplit("/", 1)[-1]


def _in_partitions(incoming: DataFrame, stored: Reading) -> list[DataFile]:
    """The files of the partitions that the incoming rows fall into."""
    columns = stored.spec.partition_by
    files = stored.files
    if not columns:
        return list(files)
    places = incoming.select(*map(named, columns)).distinct().collect()
    return prune(files, {name: tuple(place[name] for place in places) for name in columns}, stored.spec.schema)


def _arranged(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Rows such that each partition's come together in sized files, however few or many they are.

    By the JVM, since PySpark's own `hint` takes no expressions. Where Spark does not adapt, it only warns of the hint.
    """
    if fits_one_task(rows):
        return rows.coalesce(1)
    session = rows.sparkSession
    if session.conf.get("spark.sql.adaptive.enabled") != "true":
        return rows
    columns = sequence(session, (named(name)._jc.expr() for name in partition_by))
    return DataFrame(rows._jdf.hint("rebalance", columns), session)
