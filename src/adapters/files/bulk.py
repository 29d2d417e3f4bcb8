"""Files as the chunks of a bulk load: each file is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field

from ...domain.bulk import CHUNK, SEARCH_TS, BulkSpec, KeyRange, reach_of
from ...domain.epoch import BATCH_COLUMNS, ORIGIN, POSITION
from ...domain.ports import BulkSource

if TYPE_CHECKING:
    from datetime import datetime

    from ...domain.epoch import OffsetRange, Offsets
    from ...domain.ports import StreamSource
    from ...domain.schema import Schema

_MOMENT = nw.Datetime("us", "UTC")


@define(eq=False)
class FileBulk(BulkSource):
    """The files of a folder, so many an epoch, in the order of their names.

    Args:
        files: reads them.
        spec: what they hold.
    """

    files: StreamSource
    spec: BulkSpec
    schema: Schema = field(init=False)
    repeatable: bool = field(init=False, default=True)

    def __attrs_post_init__(self) -> None:
        self.schema = self.files.schema

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        at = self.spec.search_ts
        if not isinstance(at, str | None) and (watermark is None or watermark < at + self.spec.delay):
            return None
        return self.files.plan(after)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        first = offsets.after["count"] if offsets.after else 0
        rows = self.files.read(offsets)
        at = self.spec.search_ts
        read_at = nw.col(at) if isinstance(at, str) else nw.lit(at)
        return rows.select(
            *self.schema.names,
            (nw.col(ORIGIN).rank("dense").cast(nw.Int64) - 1 + first).alias(CHUNK),
            read_at.cast(_MOMENT).alias(SEARCH_TS),
            *(nw.col(name).alias(reach_of(place)) for place, name in enumerate(self.spec.position)),
            *BATCH_COLUMNS,
        )

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        end, done = self.files.end(), after["count"] if after else 0
        return (KeyRange(),) if end is not None and end["count"] > done else ()

    def lag(self, after: Offsets | None) -> str:
        lag = self.files.lag(after)
        return "" if lag.startswith("0 ") else lag

    def trouble(self) -> tuple[str, ...]:
        return ()
