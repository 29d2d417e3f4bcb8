"""Sums of values as large as their types allow, against Python's own numbers: exact, or an error."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.memory.queries import DuckQueries
from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.domain.errors import SumOverflow
from headwater.domain.table.change import POSITION, Change
from headwater.domain.table.merge import Sum
from headwater.domain.table.schema import Schema, column
from headwater.testing.frames import polars_frame
from headwater.testing.store_harness import mark_of, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WHOLE, WIDE = 2**63 - 1, 10**38 - 1
TABLE = spec_of("g string, n bigint, d decimal(38,2)", ["g"], rules={"n": Sum(), "d": Sum()})


def _near(limit: int) -> st.SearchStrategy[int]:
    """Whole numbers, most of them near zero or near a limit on either side."""
    ends = [st.integers(at - 3, at + 3) for at in (0, limit // 2, -limit // 2)]
    return st.one_of(st.integers(limit - 3, limit), st.integers(-limit, 3 - limit), *ends, st.integers(-limit, limit))


Numbers = tuple[str, int, int]
rows_of = st.lists(st.tuples(st.sampled_from("ab"), _near(WHOLE), _near(WIDE)), min_size=1, max_size=8)


def _decimal(unscaled: int) -> Decimal:
    with localcontext(prec=60):
        return Decimal(unscaled).scaleb(-2)


def _typed(rows: Sequence[Numbers]) -> list[tuple[Any, ...]]:
    return [(g, n, _decimal(d)) for g, n, d in rows]


def _expected(rows: Sequence[Numbers], group: str) -> tuple[list[int], list[int]]:
    """What the sums of a group come to, row by row."""
    mine = [row for row in rows if row[0] == group]
    return list(accumulate(n for _, n, _ in mine)), list(accumulate(d for _, _, d in mine))


def _fit(whole: Sequence[int], wide: Sequence[int]) -> bool:
    return all(abs(each) <= WHOLE for each in whole) and all(abs(each) <= WIDE for each in wide)


def _answers(make: Callable[[], list[tuple[Any, ...]]], *, fit: bool) -> list[tuple[Any, ...]] | None:
    if fit:
        return sorted(make())
    with pytest.raises(SumOverflow):
        make()
    return None


@given(rows_of)
def test_totals(rows: list[Numbers]) -> None:
    schema = Schema.parse("g string, _sum_n bigint, _sum_d decimal(38,2)")
    totals = {g: tuple(each[-1] for each in _expected(rows, g)) for g in sorted({row[0] for row in rows})}
    added = PolarsEngine().add_up(polars_frame(_typed(rows), schema), ["g"], schema.names[1:])
    fit = all(_fit([n], [d]) for n, d in totals.values())
    found = _answers(lambda: added.collect().rows(), fit=fit)
    assert found in (None, [(g, n, _decimal(d)) for g, (n, d) in totals.items()])


@given(rows_of)
def test_running_totals(rows: list[Numbers]) -> None:
    schema = Schema.parse("g string, at bigint, _sum_n bigint, _sum_d decimal(38,2)")
    placed = [(g, at, *more) for at, (g, *more) in enumerate(_typed(rows))]
    running = PolarsEngine().running(polars_frame(placed, schema), schema.names[2:], ["g"], "at")
    sums = {g: _expected(rows, g) for g in "ab"}
    found = _answers(lambda: running.collect().rows(), fit=all(_fit(*each) for each in sums.values()))
    if found is not None:
        for g, (whole, wide) in sums.items():
            assert [(n, d) for name, _, n, d in found if name == g] == list(
                zip(whole, map(_decimal, wide), strict=True)
            )


@given(rows_of)
def test_merged_sums(rows: list[Numbers]) -> None:
    store = MemoryStore()
    store.ensure(TABLE)
    placed = [(*row, at) for at, row in enumerate(_typed(rows))]
    frame = polars_frame(placed, TABLE.schema.plus(column(POSITION, "bigint")))
    totals = {g: tuple(each[-1] for each in _expected(rows, g)) for g in sorted({row[0] for row in rows})}
    fit = all(-WHOLE - 1 <= n <= WHOLE and abs(d) <= WIDE for n, d in totals.values())
    found = _answers(
        lambda: store.read(TABLE.name, store.commit(TABLE.name, Change(merge=frame), mark_of(1))).collect().rows(),
        fit=fit,
    )
    assert found in (None, [(g, n, _decimal(d)) for g, (n, d) in totals.items()])


@given(rows_of)
def test_sums_in_sql(rows: list[Numbers]) -> None:
    """One that overflows on the way may stop as well: DuckDB adds decimals up in an order of its own."""
    totals = {g: tuple(each[-1] for each in _expected(rows, g)) for g in sorted({row[0] for row in rows})}
    frame = polars_frame(_typed(rows), TABLE.schema)
    sql = "SELECT g, sum(n) AS n, sum(d) AS d FROM t GROUP BY g"
    try:
        found = sorted(DuckQueries().query(sql, {"t": frame}).collect().rows())
    except SumOverflow:
        assert not all(_fit(*_expected(rows, g)) for g in totals) or sum(abs(d) for _, _, d in rows) > WIDE
    else:
        assert found == [(g, n, _decimal(d)) for g, (n, d) in totals.items()]
