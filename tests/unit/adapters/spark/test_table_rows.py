"""Numbers and times of a table in another declared type: each is the same there, or makes a dead letter."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from headwater.adapters.spark.table_rows import TableRows
from headwater.domain.source.decode import INTEGER_BITS
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.delta, pytest.mark.contract]

_BOUNDS = [sign * 2 ** (bits - 1) for bits in INTEGER_BITS.values() for sign in (1, -1)]
_NEAR_BOUNDS = sorted({bound + step for bound in _BOUNDS for step in (-1, 0, 1)})
_FLOATS = [*map(float, _BOUNDS), *(at * (1 + step) for at in map(float, _BOUNDS) for step in (2.0**-23, -(2.0**-24)))]
_WHOLE = {
    name: [each for each in _NEAR_BOUNDS if -half <= each < half]
    for name, half in ((name, 2 ** (bits - 1)) for name, bits in INTEGER_BITS.items())
}
_SHORT = {"float": "f", "double": "d"}
_FOUND = _WHOLE | {"float": _FLOATS, "double": _FLOATS, "decimal(20,0)": _NEAR_BOUNDS}


def _typed(rows: DataFrame, wanted: str) -> DataFrame:
    return TableRows("t", RecordSpec(Schema.parse(f"a {wanted}"))).typed(rows)


@pytest.mark.parametrize("found", _FOUND)
def test_numbers_at_the_bounds_of_a_type_are_the_same_or_dead_letters(spark: SparkSession, found: str) -> None:
    rows = spark.createDataFrame([(repr(each),) for each in _FOUND[found]], "a string")
    rows = rows.select(F.col("a").cast(found))
    wanted = [each for each in (*_WHOLE, "float", "double", "decimal(10,0)") if each != found]
    if found.startswith("decimal"):  # a float is the one nearest to a decimal
        wanted = [*_WHOLE]
    frames = [_typed(rows, each).select(F.lit(each), _text(each), "_raw", "_error") for each in wanted]
    lines = reduce(lambda one, other: one.unionAll(other), frames).collect()
    assert len(lines) == len(wanted) * len(_FOUND[found])
    values = {each._raw: _exact(found, each.a) for each in rows.select(_text(found), _json()).collect()}
    for kind, text, raw, error in lines:
        fits = _holds(kind, values[raw])
        assert (error is None) == fits, (found, raw, kind, text, error)
        assert not fits or _exact(kind, text) == values[raw], (found, raw, kind, text)


def _text(kind: str) -> Column:
    return F.col("a").cast(kind).cast("string").alias("a")


def _exact(kind: str, text: str) -> Fraction:
    if kind not in _SHORT:
        return Fraction(text)
    number = Struct(_SHORT[kind])  # the text is the shortest one of its value
    return Fraction(number.unpack(number.pack(float(text)))[0])


def _json() -> Column:
    return F.to_json(F.struct("a")).alias("_raw")


def _holds(kind: str, exact: Fraction) -> bool:
    if kind in INTEGER_BITS:
        half = 2 ** (INTEGER_BITS[kind] - 1)
        return exact.denominator == 1 and -half <= exact < half
    if kind.startswith("decimal"):
        return exact.denominator == 1 and abs(exact) < 10**10
    digits = abs(exact.numerator)
    return (digits // (digits & -digits)).bit_length() <= (24 if kind == "float" else 53)


@pytest.mark.parametrize("wanted", ["bigint", "int", "double", "decimal(38,6)"])
def test_the_first_and_the_last_time_of_spark_are_no_number(spark: SparkSession, wanted: str) -> None:
    micros = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1, 1_704_067_200_000_000]
    rows = spark.createDataFrame([(each,) for each in micros], "a bigint").select(F.timestamp_micros("a").alias("a"))
    *dead, good = _typed(rows, wanted).select("a", "_error").collect()
    assert [each.a for each in dead] == [None] * 4
    assert all(each["_error"].startswith(f"column 'a': {wanted} wanted, not ") for each in dead)
    assert (int(good.a), good["_error"]) == (1_704_067_200, None)


@pytest.mark.parametrize("found", ["bigint", "double"])
def test_numbers_beyond_all_times_are_dead_letters(spark: SparkSession, found: str) -> None:
    seconds = [-(2**63), -9_223_372_036_855, 9_223_372_036_854, 9_223_372_036_855, 2**63 - 1, 1_704_067_200]
    rows = spark.createDataFrame([(each,) for each in seconds], "a bigint").select(F.col("a").cast(found))
    *dead, good = _typed(rows, "timestamp").select(F.unix_seconds("a").alias("a"), "_error").collect()
    assert all(each.a is None and each["_error"].startswith("column 'a': timestamp wanted") for each in dead)
    assert (good.a, good["_error"]) == (1_704_067_200, None)
