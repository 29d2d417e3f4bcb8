"""The part of a Kafka source that all engines share: planning."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from attrs import define, field

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import ConfigError
from ...domain.ports import Now, StreamSource
from ...domain.source.record_spec import READ, TEXT, RecordSpec
from ...domain.table.schema import Schema
from ..records.dead_letters import JsonDeadLetters, ReadAgain
from . import plan as planning
from .broker import TopicReader
from .compaction import check_compaction
from .decoder import RegistryDeadLetters, registry_decoder
from .registry import Registry
from .runs import Run
from .settings import KafkaSettings

_FEW = 1000
"""The least number of records whose size is measured."""


@define(eq=False)
class KafkaSource(StreamSource):
    """Topics as a stream; engines add `read` and `reread`.

    Args:
        settings: the cluster and its topics.
        spec: the spec of the records' values, which are JSON of any kind, Avro or Protobuf.

    Raises:
        ConfigError: the spec is of another format.
        NotInstalled: a package that parses the values is missing.
    """

    settings: KafkaSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    lanes: bool = field(init=False, default=True)
    _reader: TopicReader = field(init=False)
    _uncommitted: TopicReader = field(init=False)
    _registry: Registry | None = field(init=False, default=None)
    _checks_compaction: bool = field(init=False)
    """Whether it is still to be checked that no topic is compacted; asked once, as the answer seldom changes."""
    _mean_bytes: float | None = field(init=False, default=None)
    """The mean size of the records that were read last; None if none was read yet."""

    def __attrs_post_init__(self) -> None:
        if not self.spec.is_json:
            raise ConfigError(f"Kafka records cannot be read as {self.spec.format}; use json")
        self._reader, self._uncommitted = TopicReader(self.settings), TopicReader(self.settings, "read_uncommitted")
        self._checks_compaction = self.settings.compaction == "check" and self.spec.compacted != READ
        if self.spec.encoding != TEXT:
            self._registry = Registry(self.settings.registry or "", self.settings.registry_auth)
            registry_decoder(self.spec, self._registry)  # a missing package is told now, not by a worker
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The next records, as many as are waiting, up to the limits of the settings; None if there are none.

        A limit in bytes is kept to approximately, by the mean size of earlier records, or of a few of the next ones.

        Raises:
            ConfigError: a topic does not exist, or is compacted although the service needs each record.
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records were deleted before they were read, or a topic was created again.
        """
        self.check_after(after or {})
        held, limit = self._reader.offset_bounds(), self.settings.limit
        if self._checks_compaction:
            check_compaction(self._reader.compacted_topics(), self.spec.compacted)
            self._checks_compaction = False
        found = planning.plan(after, held, limit.rows)
        if found is None or limit.bytes is None:
            return found
        if self._mean_bytes is None and planning.count(found) > _FEW:
            self._learn_from_next(after, held, found)
        if self._mean_bytes is None:
            return found
        rows = max(int(limit.bytes / self._mean_bytes), 1)
        return found if planning.count(found) <= rows else planning.plan(after, held, rows)

    def readable(self, offsets: OffsetRange) -> bool:
        """Whether no record of a range has been removed; see `Source.readable`."""
        return planning.is_held(offsets, self._reader.offset_bounds())

    def has_uncommitted(self, after: Offsets | None) -> bool:
        return planning.waiting(after, self._uncommitted.offset_bounds()) > 0

    def check_after(self, after: Offsets) -> None:
        planning.check_kind(after)

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """See `Source.check_complete`; raises the same errors as `plan`."""
        planning.check_complete(beginning, until, self._reader.offset_bounds())

    def check_rebuilt(self, former: OffsetRange, rebuilt: OffsetRange) -> None:
        planning.check_rebuilt(former, rebuilt)

    def _rereading(self) -> ReadAgain:
        """The reader of dead letters of these topics."""
        return JsonDeadLetters(self.spec) if self._registry is None else RegistryDeadLetters(self.spec, self._registry)

    def _learn_from_next(
        self, after: Offsets | None, held: Mapping[planning.Partition, planning.OffsetBounds], found: OffsetRange
    ) -> None:
        """Learn the mean size from the next records; a compacted topic may have none at many offsets in a row."""
        few, some = _FEW, None
        while self._mean_bytes is None and some != found:
            some = planning.plan(after, held, few) or found
            self._learn_size(self._reader.runs(planning.slices(some)))
            few *= 10

    def _learn_size(self, runs: Iterator[Run]) -> Iterator[Run]:
        """Learn the mean size of records from the first ones; return all of them."""
        first, count, size = list[Run](), 0, 0
        while count < _FEW and (run := next(runs, None)):
            first.append(run)
            count, size = count + len(run.values), size + run.size
        if count:
            self._mean_bytes = max(size / count, 1.0)
        return chain(first, runs)

    def beginning(self) -> Offsets:
        """The offsets before the oldest records; raises the same errors as `plan`."""
        return planning.beginning(self._reader.offset_bounds())

    def start_at(self, given: Offsets) -> Offsets:
        """See `StreamSource.start_at`; topics that are left out start at their beginning."""
        return planning.start_at(given, self._reader.offset_bounds())

    def end(self) -> Offsets:
        """The offsets after the newest records; raises the same errors as `plan`."""
        return planning.end(self._reader.offset_bounds())

    def lag(self, after: Offsets | None) -> str:
        """The number of records waiting; offsets without a record are counted too."""
        return _records(planning.waiting(after, self._reader.offset_bounds()))

    def held_back(self, after: Offsets | None) -> str:
        """The records of open transactions, and those that follow them in their partitions."""
        all_ = self._uncommitted.offset_bounds()  # first: else records that come meanwhile would be counted
        count = planning.held_back(after, all_, self._reader.offset_bounds())
        return f"{_records(count)} behind an open transaction" if count else ""


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"
