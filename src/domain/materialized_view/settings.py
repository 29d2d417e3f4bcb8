"""What a view is, over which inputs."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..errors import ConfigError
from ..input import check_names
from ..sql import parse_statement
from ..sql.calls import AGGREGATES, calls
from ..sql.parsing import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..input import ViewOf
    from ..schema import DataType, Schema
    from ..service import ViewSpec
    from .lineage import Term

ALIGN = ("before", "at", "newest")
_TICK = timedelta(microseconds=1)
"""What event times are told apart by."""
ALL = "all"
"""Declared of an input: a change of it concerns every row of the view."""
_UNORDERED = frozenset({
    "any_value", "array_agg", "collect_list", "collect_set", "first", "first_value", "last", "last_value", "listagg",
    "string_agg",
})  # fmt: skip
"""Aggregates whose value depends on the order in which rows come."""


@frozen
class ViewSettings:
    """What a view is.

    Args:
        pipeline: the pipeline's name.
        inputs: what the query reads, by the name that it calls it: views of other pipelines that have a key.
        key: columns that name a row of the view. Rows in which one is null are not part of it.
        sql: the query, in Spark's dialect.
        changes: of inputs whose changes cannot be followed by the query itself: a query over the changed rows of the
            input, under its name, and the other inputs, that gives the columns of the view's key that are concerned;
            or ``all``.
        schema: the query's columns; None to find them out.
        align: which moment the inputs are read at. ``before``: all event times before the lowest of their watermarks;
            ``at``: that one too, where no more rows can come at it; ``newest``: each at its newest publication. None:
            ``before`` where there are several pipelines, else ``newest``.
        lag: how far an input may be behind the others until the view raises an alarm.
    """

    pipeline: str
    inputs: Mapping[str, ViewOf]
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    sql: str
    changes: Mapping[str, str] = field(factory=dict)
    schema: Schema | None = None
    align: str | None = None
    lag: timedelta = timedelta(minutes=10)

    def __attrs_post_init__(self) -> None:
        check_names("inputs", self.inputs)
        if self.align not in {None, *ALIGN}:
            raise ConfigError(f"align = {self.align!r} is not one of {', '.join(ALIGN)}")
        if not self.key or len({name.lower() for name in self.key}) < len(self.key):
            raise ConfigError("key needs at least one column, each once")
        check_query(self.sql, self.inputs)
        for name, sql in self.changes.items():
            if name not in self.inputs:
                raise ConfigError(f"changes names no input by {name!r}; there are: {', '.join(self.inputs)}")
            if sql != ALL:
                check_query(sql, self.inputs)

    @property
    def aligned(self) -> bool:
        """Whether all inputs are read as of one event time."""
        return self._align != "newest"

    @property
    def slack(self) -> timedelta:
        """How long before the lowest watermark of its inputs lies the moment that they are read at, where aligned."""
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
    """The columns that a view is made of, and has.

    Args:
        schema: the query's columns.
        inputs: the view that each input is.
        types: of a value of an input's rows.
    """

    schema: Schema
    inputs: Mapping[str, ViewSpec]
    types: Callable[[str, Term], DataType]


def check_query(sql: str, inputs: Mapping[str, ViewOf]) -> None:
    """Refuse what is no query over these inputs, or may answer otherwise next time.

    Raises:
        ConfigError: with the reason.
    """
    statement = parse_statement(sql)
    statement.check_tables(inputs)
    statement.check_repeatable()
    if found := calls(sql, _UNORDERED & AGGREGATES):
        raise ConfigError(
            f"{shown(sql)} calls {found[0]}, whose value depends on the order in which rows come: part of a view"
            " computed anew would differ from the whole; use min, max, or max_by with an order"
        )
