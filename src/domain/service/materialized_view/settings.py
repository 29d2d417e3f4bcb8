"""The settings of a materialized view, and their checks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import ClassVar

from attrs import field, frozen
from attrs.validators import optional

from ...errors import ConfigError
from ...sql.calls import AGGREGATES, calls
from ...sql.notation import check_grouping
from ...sql.parsing import quote
from ...table.schema import DataType, Schema
from ...table.view_spec import ViewSpec
from ..base import one_of
from ..input import ViewOf, check_names, parse_query
from .derivation import SourceExpr

ALIGN = ("before", "at", "newest")
_TICK = timedelta(microseconds=1)
"""The resolution of event times."""
ALL = "all"
"""The declaration that a change of an input affects every row of the view."""
_UNORDERED = frozenset({
    "any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value", "listagg",
    "string_agg",
})  # fmt: skip
"""Aggregates whose value depends on the order in which rows come."""


@frozen
class ViewSettings:
    """The settings of a materialized view.

    Args:
        pipeline: the pipeline's name.
        inputs: the views that the query reads, by their names in the query. They are views of other pipelines, with a
            key.
        key: columns that name a row of the view. Rows in which one is null are not part of it.
        sql: the query, in Spark's dialect.
        changes: for each input whose changes cannot be traced through the query: a query that returns the affected key
            columns of the view, or ``all``. It reads the changed rows of the input, under the input's name, and the
            other inputs.
        schema: the query's columns; None to derive them from the query.
        align: the moment at which inputs are read. ``before``: just before the lowest of their watermarks; ``at``: at
            the lowest watermark, if no more rows can arrive at it; ``newest``: each input at its newest publication.
            None: ``before`` with several pipelines, else ``newest``.
        lag: how far an input may be behind the others before the view raises an alarm.
    """

    kind: ClassVar[str] = "materialized_view"

    pipeline: str
    inputs: Mapping[str, ViewOf]
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    sql: str
    changes: Mapping[str, str] = field(factory=dict)
    schema: Schema | None = None
    align: str | None = field(default=None, validator=optional(one_of(*ALIGN)))
    lag: timedelta = timedelta(minutes=10)

    def __attrs_post_init__(self) -> None:
        check_names("inputs", self.inputs)
        if not self.key or len({name.lower() for name in self.key}) < len(self.key):
            raise ConfigError("key needs at least one column, and each column only once")
        check_query(self.sql, self.inputs)
        for name, sql in self.changes.items():
            if name not in self.inputs:
                raise ConfigError(f"changes: there is no input {name!r}; there are: {', '.join(self.inputs)}")
            if sql != ALL:
                check_query(sql, self.inputs)

    @property
    def aligned(self) -> bool:
        """Whether all inputs are read as of one event time."""
        return self._align != "newest"

    @property
    def slack(self) -> timedelta:
        """The time between the moment at which inputs are read and their lowest watermark, if the view is aligned."""
        return _TICK if self._align == "before" else timedelta()

    @property
    def _align(self) -> str:
        several = len({each.pipeline for each in self.inputs.values()}) > 1
        return self.align or ("before" if several else "newest")

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that the rows depend on."""
        reads = [sorted(map(repr, self.inputs.items())), sorted(self.changes.items()), self.aligned]
        text = f"view {self.key} {self.sql} {reads}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@frozen(eq=False)
class Shapes:
    """The columns of a view and of its inputs.

    Args:
        schema: the query's columns.
        inputs: the view of each input, by the input's name.
        types: returns the type of an expression over an input's rows.
    """

    schema: Schema
    inputs: Mapping[str, ViewSpec]
    types: Callable[[str, SourceExpr], DataType]


def check_query(sql: str, inputs: Mapping[str, ViewOf]) -> None:
    """Check that a text is a query over these inputs, and that it returns the same result each time.

    Raises:
        ConfigError: it is not.
    """
    parse_query(sql, inputs)
    check_grouping(sql)
    if found := calls(sql, _UNORDERED & AGGREGATES):
        raise ConfigError(
            f"{quote(sql)} calls {found[0]}, whose value depends on the order in which rows come, so a part"
            " that is recomputed could differ from the whole view; use min, max, or max_by with an order"
        )
