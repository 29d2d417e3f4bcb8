"""The reference fold, and Spark's own, against a plain oracle, over random rows cut at random places."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.adapters.delta.local.rows import fold_rows
from headwater.adapters.delta.stored import MERGED, OPERATION, SEQUENCE
from headwater.domain.table.merge import ColumnRule, KeepFirst, LastNonNull, Latest, Max, Min, Replace, Sum, fold
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec

from .effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

Row: TypeAlias = dict[str, int | None]

KEY = ["k"]
RULES: dict[str, ColumnRule] = {
    "replaced": Replace(),
    "kept": KeepFirst(),
    "summed": Sum(),
    "low": Min(),
    "high": Max(),
    "known": LastNonNull(),
}
GROUPS = [Latest(["a", "b"], ["x", "y"]), Latest(["seq"], ["z"])]
COLUMNS = [*KEY, *RULES, *(name for group in GROUPS for name in (*group.by, *group.columns)), "nr"]


def values(highest: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, highest)


# Few keys and few sequence numbers, so that rows meet, tie, and are null in part.
ROW = st.fixed_dictionaries(
    {name: values(2 if name in {"a", "b", "seq"} else 9) for name in COLUMNS[1:-1]} | {"k": st.integers(0, 1)}
)
BATCHES = st.lists(st.lists(ROW, max_size=4), min_size=1, max_size=4)


def oracle(rows: list[Row]) -> list[Row]:
    """One row a key, by the meaning of the rules and nothing else."""
    by_key: dict[int | None, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row["k"], []).append(row)
    return [_fold_one(of_key) for _, of_key in sorted(by_key.items(), key=lambda item: str(item[0]))]


def _fold_one(rows: list[Row]) -> Row:
    folded = {"k": rows[0]["k"], "replaced": rows[-1]["replaced"], "kept": rows[0]["kept"], "nr": rows[-1]["nr"]}
    folded |= {name: _given(rows, name, over) for name, over in (("summed", sum), ("low", min), ("high", max))}
    folded["known"] = _given(rows, "known", lambda found: list(found)[-1])
    for group in GROUPS:
        folded |= _newest(rows, group)
    return folded


def _given(rows: list[Row], name: str, over: Callable[[Iterable[int]], int]) -> int | None:
    found = [value for row in rows if (value := row[name]) is not None]
    return over(found) if found else None


def _newest(rows: list[Row], group: Latest) -> Row:
    newest: Row = dict.fromkeys((*group.by, *group.columns))
    reached: tuple[int, ...] | None = None
    for row in rows:
        sequence = tuple(-1 if (value := row[name]) is None else value for name in group.by)
        if max(sequence) >= 0 and (reached is None or sequence >= reached):
            reached, newest = sequence, {name: row[name] for name in newest}
    return newest


def folded(frame: pl.DataFrame, columns: list[str] = COLUMNS) -> pl.DataFrame:
    groups = [group for group in GROUPS if group.by[0] in columns]
    rules = {name: rule for name, rule in RULES.items() if name in columns}
    rows = fold(nw.from_native(frame.lazy()), key=KEY, rules=rules, groups=groups, arrival="nr")
    done: pl.DataFrame = rows.collect(backend="polars").to_native()
    return done


def frames(batches: list[list[Row]]) -> list[pl.DataFrame]:
    """The batches as frames, rows numbered as they arrive over all of them."""
    cut, at = [], 0
    for batch in batches:
        cut.append(
            pl.DataFrame(
                [row | {"nr": at + nr} for nr, row in enumerate(batch)], schema=dict.fromkeys(COLUMNS, pl.Int64)
            )
        )
        at += len(batch)
    return cut


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.sort("k").to_dicts()


@settings(max_examples=examples(150))
@given(BATCHES, st.randoms(use_true_random=False))
def test_folding_is_what_the_rules_say(batches: list[list[Row]], chance: Any) -> None:
    rows = pl.concat(frames(batches))
    shuffled = rows[chance.sample(range(rows.height), rows.height)]
    assert rows_of(folded(shuffled).select(sorted(COLUMNS))) == [
        dict(sorted(row.items())) for row in oracle(rows.to_dicts())
    ]


@settings(max_examples=examples(100))
@given(BATCHES, st.booleans())
def test_the_local_engine_folds_as_the_rules_say(batches: list[list[Row]], alone: bool) -> None:  # noqa: FBT001 - drawn
    rows = pl.concat(frames(batches))
    if alone:  # the first row of each key; the others share theirs
        rows = pl.concat([rows.unique("k", keep="first"), rows.with_columns(pl.col("k") + 2)])
    schema = Schema.parse(", ".join(f"{name} bigint" for name in COLUMNS if name != "nr"))
    table = TableSpec("t.rows", schema, KEY, rules=RULES, groups=GROUPS)
    stored = rows.rename({"nr": SEQUENCE}).with_columns(pl.lit(MERGED, pl.Int8).alias(OPERATION))
    found = fold_rows(stored.lazy(), table, table.key, deletes=False).collect().rename({SEQUENCE: "nr"})
    expected = [dict(sorted(row.items())) for row in oracle(rows.sort("nr").to_dicts())]
    assert rows_of(found.select(sorted(COLUMNS))) == expected


@settings(max_examples=examples(75))
@given(BATCHES)
def test_it_does_not_matter_where_batches_are_cut(batches: list[list[Row]]) -> None:
    cut = frames(batches)
    at_once = rows_of(folded(pl.concat(cut)))
    stored = folded(cut[0])
    for batch in cut[1:]:
        stored = folded(pl.concat([stored, batch.select(stored.columns)]))
    assert rows_of(stored) == at_once
    each = [folded(batch) for batch in cut]
    assert rows_of(folded(pl.concat(each))) == at_once


@settings(max_examples=examples(50))
@given(BATCHES)
def test_rows_that_only_replace_fold_as_they_do_among_other_rules(batches: list[list[Row]]) -> None:
    rows = pl.concat(frames(batches))
    names = ["k", "replaced", "nr"]
    assert rows_of(folded(rows.select(names), names)) == rows_of(folded(rows).select(names))


@pytest.mark.delta
def test_spark_folds_as_the_rules_say(spark: SparkSession) -> None:
    from headwater.adapters.spark.merge import fold_by_key as folded_by_spark
    from headwater.adapters.spark.schema import frame_of

    chance = random.Random(6)
    rows: list[Row] = [
        {name: chance.choice([None, *range(3 if name in {"a", "b", "seq"} else 10)]) for name in COLUMNS}
        | {"k": chance.randrange(400), "nr": nr}
        for nr in range(1500)
    ]
    schema = Schema.parse(", ".join(f"{name} bigint" for name in COLUMNS))
    frame = frame_of(spark, schema, [tuple(row[name] for name in COLUMNS) for row in rows]).to_native()
    found = folded_by_spark(frame, key=KEY, rules=RULES, groups=GROUPS, arrival="nr", arrivals="all")
    lines = [row.asDict() for row in found.collect()]
    arrivals = {line["k"]: sorted(line.pop("all")) for line in lines}
    assert {line["k"]: line for line in lines} == {line["k"]: line for line in oracle(rows)}
    assert arrivals == {key: [row["nr"] for row in rows if row["k"] == key] for key in arrivals}
