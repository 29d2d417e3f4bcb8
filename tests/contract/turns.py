"""A store whose operations run in turn on two engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, fields

from headwater.adapters.spark.schema import frame_of
from headwater.domain.table.change import Change, Matching
from headwater.domain.table.schema import Schema
from headwater.testing.expected import rows_of
from headwater.testing.frames import polars_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from headwater.domain.ports import KeptStore


def converted(value: Any, convert: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]) -> Any:
    """An argument of a store, with frames of the other engine."""

    def each(frame: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any] | None:
        return None if frame is None else convert(frame)

    if isinstance(value, nw.LazyFrame):
        return each(value)
    if isinstance(value, Matching):
        return Matching(each(value.keys), value.within)
    if isinstance(value, Change):
        return Change(**{part.name: each(getattr(value, part.name)) for part in fields(Change)})
    return value


def on_polars(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return polars_frame(rows_of(frame), Schema.of(frame))


@define(eq=False)
class TakingTurns:
    """A store whose operations run in turn on one of two stores; both know the tables that are ensured."""

    local: KeptStore
    spark: KeptStore
    turns: Iterator[str]
    session: SparkSession

    def ensure(self, *arguments: Any) -> Schema:
        self.local.ensure(*arguments)
        return self.spark.ensure(*arguments)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if next(self.turns) == "spark":
                return getattr(self.spark, name)(*(converted(each, self._on_spark) for each in arguments), **more)
            return getattr(self.local, name)(*(converted(each, on_polars) for each in arguments), **more)

        return call

    def _on_spark(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        if not frame.implementation.is_polars():
            return frame
        return frame_of(self.session, Schema.of(frame), frame.collect(backend="polars").rows())
