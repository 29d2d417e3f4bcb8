"""What every engine's Kafka source shares: planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from ...domain.errors import ConfigError
from ...domain.ports import StreamSource
from . import broker, planning

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...domain.epoch import OffsetRange, Offsets
    from ...domain.schema import Schema
    from ...domain.source import RecordSpec
    from .settings import KafkaSettings


@define(eq=False)
class KafkaSource(StreamSource):
    """Topics as a stream; engines add `read` and `again`.

    Args:
        settings: the cluster and its topics.
        spec: what the records' values hold; JSON of any kind.
    """

    settings: KafkaSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    rereads: Collection[str] = field(init=False)
    lanes: bool = field(init=False, default=True)

    def __attrs_post_init__(self) -> None:
        if not self.spec.is_json:
            raise ConfigError(f"Kafka records cannot be read as {self.spec.format}; use json")
        self.schema, self.format, self.rereads = self.spec.rows, self.spec.format, self.spec.rereads

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next records, at most `max_rows_per_epoch`; None if there are none.

        Raises:
            ConfigError: a topic does not exist.
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records were removed before they were read, or a topic was made anew.
        """
        return planning.plan(after, broker.held(self.settings), self.settings.max_rows_per_epoch)

    def end(self) -> Offsets:
        """The offsets behind the newest records; raises as `plan` does."""
        return planning.end(broker.held(self.settings))

    def lag(self, after: Offsets | None) -> str:
        """The number of records waiting; offsets without a record are counted too."""
        waiting = planning.waiting(after, broker.held(self.settings))
        return f"{waiting} record{'' if waiting == 1 else 's'}"
