"""Decodes literal messages as every source does, to literal rows."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

STEP = 10_000
"""What lies between the positions of two records."""


@frozen
class Decoding:
    """One source's way to read a format."""

    format: str
    ddl: str
    time_zone: str = "UTC"
    changes: ChangeSpec = field(factory=ChangeSpec)
    needs_whole_rows: bool = False
    needs_commit_order: bool = False

    def lines(self, *raws: str | None) -> list[dict[str, Any]]:
        """All columns of the rows of some records."""
        spec = RecordSpec(
            Schema.parse(self.ddl),
            self.format,
            time_zone=self.time_zone,
            changes=self.changes,
            needs_whole_rows=self.needs_whole_rows,
            needs_commit_order=self.needs_commit_order,
        )
        records = [Record(raw and raw.encode(), at * STEP, "log") for at, raw in enumerate(raws)]
        lines: list[dict[str, Any]] = RecordDecoder(spec).batch(records).to_pylist()
        return lines

    def rows(self, *raws: str | None) -> list[tuple[Any, ...]]:
        """Row kind and values of each row; none of the records may be refused."""
        lines = self.lines(*raws)
        assert [line["_error"] for line in lines] == [None] * len(lines)
        return [(line["_row_kind"], *self._values(line)) for line in lines]

    def refusal(self, raw: str) -> str:
        """Why a record is refused; it keeps its bytes, and no value of it is let through."""
        (line,) = self.lines(raw)
        assert (line["_raw"], set(self._values(line))) == (raw, {None})
        return str(line["_error"])

    def value(self, raw: str) -> Any:
        """The only value of the only row."""
        ((_, value),) = self.rows(raw)
        return value

    def _values(self, line: dict[str, Any]) -> list[Any]:
        return [line[name] for name in Schema.parse(self.ddl).names]
