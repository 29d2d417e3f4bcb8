"""Sorting by one whole number is sorting by all columns."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.polars.sorting import order_code

ROWS = st.lists(
    st.tuples(
        st.text("abé\U0001f389", max_size=3),
        st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1]),
        st.integers(-3, 3),
        st.integers(-(2**40), 2**40),
    ),
    max_size=12,
)
SCHEMA = {"text": pl.String, "far": pl.Int64, "near": pl.Int8, "wide": pl.Int64}


@given(ROWS, st.permutations(list(SCHEMA)), st.integers(0, 12))
def test_the_number_has_the_order_of_the_columns(rows, by, cut):
    frame = pl.DataFrame(rows, SCHEMA, orient="row")
    code = order_code([frame[name].head(cut), frame[name].slice(cut)] for name in by)
    assert code is not None
    assert frame[code.arg_sort()].rows() == frame.sort(by, maintain_order=True).rows()
    assert code.n_unique() == frame.unique().height


def test_columns_that_have_no_such_number():
    assert order_code([[pl.Series([1, None])]]) is None
    assert order_code([[pl.Series([1.0, 2.0])]]) is None
    assert order_code([]) is None
    assert order_code([[pl.Series([number * 2**40 for number in range(2000)])]] * 6) is None
