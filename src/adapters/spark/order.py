"""Operations on Spark frames that depend on an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
from pyspark.sql import Window
from pyspark.sql import functions as F

from ...domain.ports import FrameOrder, Order, RankMethod
from .schema import lazy, named

if TYPE_CHECKING:
    from pyspark.sql import Column


class SparkOrder(FrameOrder):
    """All of `FrameOrder` but `running`, which is a matter of sums."""

    def following(
        self, frame: nw.LazyFrame[Any], columns: Mapping[str, str], *, within: str, order_by: str
    ) -> nw.LazyFrame[Any]:
        window = Window.partitionBy(named(within)).orderBy(named(order_by))
        added = {into: F.lead(named(column)).over(window) for into, column in columns.items()}
        return lazy(frame.to_native().withColumns(added))

    def behind(
        self, frame: nw.LazyFrame[Any], order: Sequence[str], *, within: str, order_by: str, into: str
    ) -> nw.LazyFrame[Any]:
        window = Window.partitionBy(named(within)).orderBy(*(named(each).desc() for each in order), named(order_by))
        # The position of the first row to arrive with this order or a higher one.
        first = F.min(named(order_by)).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        return lazy(frame.to_native().withColumn(into, named(within).isNotNull() & (first < named(order_by))))

    def ranks(
        self, frame: nw.LazyFrame[Any], order: Sequence[Order], *, within: Sequence[str], into: Mapping[str, RankMethod]
    ) -> nw.LazyFrame[Any]:
        window = Window.partitionBy(*map(named, within)).orderBy(*map(_order_column, order))
        # Up to the last equal row, which is the window's own end.
        found = {"dense": F.dense_rank(), "min": F.rank(), "max": F.count(F.lit(1))}
        ranks = {name: found[method].over(window).cast("bigint") for name, method in into.items()}
        return lazy(frame.to_native().withColumns(ranks))

    def highest(self, frame: nw.LazyFrame[Any], by: str, order: Sequence[str]) -> nw.LazyFrame[Any]:
        most = F.max(F.struct(*map(named, order))).alias("most")
        return lazy(frame.to_native().groupBy(named(by)).agg(most).select(named(by), "most.*"))


def _order_column(order: Order) -> Column:
    column = named(order.column)
    if order.descending:
        return column.desc_nulls_last() if order.nulls_last else column.desc_nulls_first()
    return column.asc_nulls_last() if order.nulls_last else column.asc_nulls_first()
