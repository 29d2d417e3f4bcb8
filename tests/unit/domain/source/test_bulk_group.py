"""A changelog and the bulk of its table as one source: the offsets of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from headwater.adapters.polars.program_source import PolarsProgramSource
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import SourceChanged
from headwater.domain.ports import BulkRows, BulkSource, PushedFrame
from headwater.domain.source.bulk import BulkGroup
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from headwater.testing.frames import polars_frame
from tests.rows_source import ExpiringRows

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.domain.epoch.epoch import Offsets
    from headwater.domain.epoch.key_range import KeyRange

ROWS = Schema.parse("id bigint")


class OneChunk(BulkSource):
    """A bulk of one empty chunk."""

    schema, repeatable, trouble = ROWS, True, ()

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:  # noqa: ARG002 - the port's
        return None if after else OffsetRange(None, {"chunks": 1})

    def read(self, offsets: OffsetRange) -> BulkRows:  # noqa: ARG002 - the port's
        return BulkRows(polars_frame([], ROWS))

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:  # noqa: ARG002 - the port's
        return ()

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        return ""


def test_the_beginning_of_an_empty_changelog_is_recorded_with_the_bulk() -> None:
    changes = ExpiringRows(ROWS, polars_frame, first=2, given=[{"id": 1}, {"id": 2}])
    group = BulkGroup(changes, OneChunk())
    planned = group.plan(None, NOW)
    beginning = {"changelog": {"rows": 2}}
    assert planned == OffsetRange(beginning, beginning | {"bulk": {"chunks": 1}})
    assert group.plan(planned.until, NOW) is None
    changes.give([{"id": 3}, {"id": 4}])
    assert group.plan(planned.until, NOW) == OffsetRange(planned.until, planned.until | {"changelog": {"rows": 4}})
    changes.first = 3
    with pytest.raises(SourceChanged, match="rows 2 to 2 were removed"):
        group.plan(planned.until, NOW)


def test_a_rebuild_must_find_both_members() -> None:
    changes, chunk, asked = ExpiringRows(ROWS, polars_frame), OneChunk(), []
    group = BulkGroup(changes, chunk)
    changes.check_rebuilt = lambda *given: asked.append(given)  # type: ignore[method-assign]
    chunk.check_complete = asked.append  # type: ignore[method-assign]
    former = OffsetRange({"changelog": {"rows": 1}}, {"changelog": {"rows": 2}, "bulk": {"chunks": 1}})
    group.check_rebuilt(former, OffsetRange(None, {"bulk": {"chunks": 1}}))
    assert asked == [(OffsetRange({"rows": 1}, {"rows": 2}), OffsetRange(None, {})), {"chunks": 1}]


def test_a_chunk_alone_is_planned_again_if_a_frame_may_have_come_since() -> None:
    group = BulkGroup(PolarsProgramSource(RecordSpec(ROWS, "json")), OneChunk())
    chunk = group.plan(None, NOW)
    assert chunk is not None
    assert not group.readable(chunk)
    assert group.plan(None, NOW) == chunk
    with group.push(PushedFrame(pl.DataFrame({"id": [1]}), 0)):
        both = group.plan(None, NOW)
        assert both is not None
        assert both.until["changelog"]["batch"] == 0
        assert both.until["bulk"] == chunk.until["bulk"]
        assert group.readable(both)
    assert not group.readable(both)


def test_a_chunk_alone_is_read_again_if_the_changelog_reads_itself() -> None:
    group = BulkGroup(ExpiringRows(ROWS, polars_frame), OneChunk())
    chunk = group.plan(None, NOW)
    assert chunk is not None
    assert group.readable(chunk)


def test_a_frame_that_is_published_plans_no_chunk() -> None:
    group = BulkGroup(PolarsProgramSource(RecordSpec(ROWS, "json")), OneChunk())
    published = {"changelog": {"query": "push", "batch": 0}}
    with group.push(PushedFrame(pl.DataFrame({"id": [1]}), 0)):
        assert group.plan(published, NOW) is None
    assert group.plan(published, NOW) == OffsetRange(published, published | {"bulk": {"chunks": 1}})
