"""Functions in SQL that use more than the values of one row. They are found by name: sqlglot lacks some of them."""

from __future__ import annotations

from collections.abc import Iterator

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from .parsing import DIALECT

# fmt: off
AGGREGATES = frozenset({
    "any", "any_value", "approx_count_distinct", "approx_percentile", "array_agg", "avg", "bit_and", "bit_or",
    "bit_xor", "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or", "collect_list", "collect_set",
    "corr", "count", "count_if", "count_min_sketch", "covar_pop", "covar_samp", "every", "first", "first_value",
    "grouping", "grouping_id", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kurtosis", "last",
    "last_value", "max", "max_by", "mean", "median", "min", "min_by", "mode", "percentile", "percentile_approx",
    "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "skewness", "some", "std", "stddev", "stddev_pop",
    "stddev_samp", "sum", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
})
# fmt: on
# fmt: off
WINDOWS = frozenset({
    "cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank", "row_number", "window",
})
# fmt: on
# fmt: off
GENERATORS = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack",
})
# fmt: on
# fmt: off
CHANGING = frozenset({
    "curdate", "current_catalog", "current_database", "current_date", "current_schema", "current_timestamp",
    "current_timezone", "current_user", "input_file_block_length", "input_file_block_start", "input_file_name",
    "java_method", "localtimestamp", "monotonically_increasing_id", "now", "rand", "randn", "random", "reflect",
    "session_user", "shuffle", "spark_partition_id", "user", "uuid",
})
# fmt: on
_CHANGING_WORDS = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentUser, exp.Localtimestamp)
_NOW_WITHOUT_ARGUMENTS = frozenset({"to_unix_timestamp", "unix_timestamp"})


def calls(text: str, names: frozenset[str]) -> tuple[str, ...]:
    """The functions of `names` that a text calls, in the order of the text."""
    return tuple(dict.fromkeys(name for name, _ in _called(text) if name in names))


def nondeterministic_calls(text: str, tree: exp.Expr) -> tuple[str, ...]:
    """The functions in a text whose result may differ between runs: random values, the clock, the session."""
    by_name = calls(text, CHANGING)
    now = tuple(name for name, empty in _called(text) if empty and name in _NOW_WITHOUT_ARGUMENTS)
    words = tuple(each.sql_name().lower() for each in tree.find_all(*_CHANGING_WORDS))
    return tuple(dict.fromkeys([*by_name, *now, *words]))


def _called(text: str) -> Iterator[tuple[str, bool]]:
    """The names before an opening parenthesis, in lower case, and whether the argument list is empty."""
    tokens = sqlglot.tokenize(text, read=DIALECT)
    for at, token in enumerate(tokens[:-1]):
        if tokens[at + 1].token_type != TokenType.L_PAREN or token.token_type == TokenType.STRING:
            continue
        if at and tokens[at - 1].token_type in {TokenType.LIKE, TokenType.ILIKE}:
            continue  # LIKE ANY (...) calls nothing
        yield token.text.lower(), tokens[at + 2 : at + 3] != [] and tokens[at + 2].token_type == TokenType.R_PAREN
