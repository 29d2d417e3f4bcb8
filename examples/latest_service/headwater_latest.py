"""An example service for Headwater: the latest row of each key, in the order of arrival; a delete removes the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import narwhals as nw
from attrs import field, frozen

from headwater.app.deployment.deployment import PipelineSettings, SourceSettings
from headwater.app.document.section import Section
from headwater.app.document.value_types import SOME_TEXTS, keys_of
from headwater.app.services.keys import OF_ONE_SOURCE
from headwater.app.services.kind import Parts, ServiceKind
from headwater.domain.epoch.batch import ERROR, Batch
from headwater.domain.epoch.watermark import newest_of
from headwater.domain.errors import ConfigError
from headwater.domain.ledger.ledger import Snapshot
from headwater.domain.ports import FrameEngine
from headwater.domain.service.base import ReadAt, Service, Step
from headwater.domain.source import dead_letter
from headwater.domain.table.change import POSITION, Change, Matching
from headwater.domain.table.collect import collect_small
from headwater.domain.table.fingerprint import fingerprint
from headwater.domain.table.net_changes import net_changes
from headwater.domain.table.row_kind import ROW_KIND, removes
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.domain.table.view_spec import ViewSpec


@frozen
class LatestSettings:
    """The settings of a pipeline: the columns of its source, the key, and the column of the watermark, if any."""

    kind: ClassVar[str] = "latest"

    pipeline: str
    schema: Schema
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    event_time: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.event_time in self.key:
            raise ConfigError(f"{self.event_time!r} is the event time, so that each row would be the latest")


class Latest(Service):
    """The latest row of each key."""

    def __init__(self, settings: LatestSettings, engine: FrameEngine) -> None:
        self.settings, self.engine = settings, engine
        self.dead_letters = dead_letter.spec(settings.pipeline)
        self.rows = TableSpec(f"{settings.pipeline}.rows", settings.schema, settings.key)
        self.tables = (self.dead_letters, self.rows)
        self.views = (ViewSpec("rows", settings.schema, settings.key, settings.key, "the latest row of each key"),)
        self.fingerprint = fingerprint(str(settings.key), {"key": ", ".join(settings.key)})

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        reason, key = nw.col(ERROR), list(self.settings.key)
        for name in key:
            reason = dead_letter.or_else(reason, nw.col(name).is_null(), f"key column {name} is null")
        rows = self.engine.persist(batch.rows.with_columns(reason.alias(ERROR)))
        good = rows.filter(nw.col(ERROR).is_null())
        count, dead = self._count(rows), self._count(rows.filter(~nw.col(ERROR).is_null()))
        latest = self.engine.persist(good.unique(subset=key, keep="last", order_by=[POSITION]))
        removed = removes(nw.col(ROW_KIND))
        kept = latest.filter(~removed).select(*self.settings.schema.names)
        changes = {self.rows.name: Change(merge=kept, delete=latest.filter(removed).select(*key))}
        if dead:
            changes[self.dead_letters.name] = Change(append=dead_letter.extract(rows, batch))
        return Step(changes, count, dead, self._newest(good))

    def _count(self, rows: nw.LazyFrame[Any]) -> int:
        return int(collect_small(rows.select(nw.len().alias("rows")))[0]["rows"])

    def _newest(self, rows: nw.LazyFrame[Any]) -> Any:
        if self.settings.event_time is None:
            return None
        newest = rows.select(nw.col(self.settings.event_time).max().alias("newest"))
        return newest_of(line["newest"] for line in collect_small(newest))

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        return at.snapshot.read(self.rows.name).select(*spec.schema.names)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        changes = after.changes_since(before, self.rows.name)
        if changes is None:  # nothing was committed in between
            none = after.read(self.rows.name, Matching(within={self.settings.key[0]: ()}))
            return net_changes(none, none, spec.key)
        return changes.select(*spec.schema.names, ROW_KIND)


class LatestKind(ServiceKind[LatestSettings, Latest]):
    """``service = "latest"``."""

    keys = OF_ONE_SOURCE | keys_of(LatestSettings, key=SOME_TEXTS)

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        source = table.pick("source", sources)
        schema = source.records.rows
        table.check_columns("key", schema)
        own = {**table.fields(LatestSettings), "event_time": source.event_time}
        return PipelineSettings(source.name, table.build(lambda: LatestSettings(table.name, schema, **own), "key"))

    def build(self, settings: LatestSettings, parts: Parts) -> Latest:
        return Latest(settings, parts.engine)
