"""The part of a Kafka source that all engines share: planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from ...domain.errors import ConfigError
from ...domain.ports import StreamSource
from . import plan as planning
from .broker import TopicReader

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...domain.epoch.epoch import OffsetRange, Offsets
    from ...domain.ports import Now
    from ...domain.source.record_spec import RecordSpec
    from ...domain.table.schema import Schema
    from .settings import KafkaSettings


@define(eq=False)
class KafkaSource(StreamSource):
    """Topics as a stream; engines add `read` and `reread`.

    Args:
        settings: the cluster and its topics.
        spec: the spec of the records' values, which are JSON of any kind.
    """

    settings: KafkaSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    lanes: bool = field(init=False, default=True)
    _reader: TopicReader = field(init=False)

    def __attrs_post_init__(self) -> None:
        if not self.spec.is_json:
            raise ConfigError(f"Kafka records cannot be read as {self.spec.format}; use json")
        self._reader = TopicReader(self.settings)
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The next records, at most `max_rows_per_epoch`; None if there are none.

        Raises:
            ConfigError: a topic does not exist.
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records were deleted before they were read, or a topic was created again.
        """
        return planning.plan(after, self._reader.offset_bounds(), self.settings.max_rows_per_epoch)

    def end(self) -> Offsets:
        """The offsets after the newest records; raises the same errors as `plan`."""
        return planning.end(self._reader.offset_bounds())

    def lag(self, after: Offsets | None) -> str:
        """The number of records waiting; offsets without a record are counted too."""
        waiting = planning.waiting(after, self._reader.offset_bounds())
        return f"{waiting} record{'' if waiting == 1 else 's'}"
