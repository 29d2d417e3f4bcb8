"""What an epoch does to the tables of a wide table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, frozen

from .. import dead_letter
from ..change import Change
from ..collect import collect_small
from ..epoch import ERROR, POSITION
from ..service import Step
from ..topic_group import TOPIC
from ..watermark import earlier, newest_of
from .etl import ACTS

if TYPE_CHECKING:
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .etl import TopicEtl
    from .horizon import Horizon
    from .settings import WideTableSettings
    from .tables import WideTables

_DEAD, _READ, _REMOVING = "_dead", "_read", "_removing"


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int
    dead_letters: int
    acting: int
    removing: int
    watermarks: dict[str, datetime | None]


@frozen(eq=False)
class WideTableStep:
    """The step of one wide table: each topic's records are merged into its own columns."""

    settings: WideTableSettings
    tables: WideTables
    topics: tuple[TopicEtl, ...]
    engine: FrameEngine
    horizon: Horizon | None

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        parts = [rows for topic in self.topics if (rows := topic.rows(batch)) is not None]
        checked = self.engine.persist(nw.concat(parts, how="diagonal"))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            letters = dead_letter.letters(checked, batch, self._formats())
            changes[self.tables.letters.name] = Change(append=letters)
        good, wide = checked.filter(nw.col(ERROR).is_null(), nw.col(ACTS)), self.tables.wide.name
        if self.horizon:
            removing = good.filter(nw.col(self.horizon.deleted)) if profile.removing else None
            changes |= self.horizon.changes(good, removing, snapshot, profile.watermarks)
        if profile.acting:
            changes[wide] = evolve(changes.get(wide, Change()), merge=self._whole(good))
        return Step(changes, profile.rows, profile.dead_letters, None, profile.watermarks)

    def _whole(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Rows with all columns of the table: those of topics that brought nothing are null."""
        there = set(rows.collect_schema().names())
        columns = (
            nw.col(each.name) if each.name in there else nw.lit(None).cast(each.type.narwhals).alias(each.name)
            for each in self.tables.wide.schema.columns
        )
        return rows.select(*columns, POSITION)

    def _formats(self) -> nw.Expr:
        """The format of each row's record."""
        first, *others = self.settings.topics
        written = nw.lit(first.format)
        for topic in others:
            written = nw.when(nw.col(TOPIC) == topic.name).then(nw.lit(topic.format)).otherwise(written)
        return written

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        there = set(checked.collect_schema().names())
        asked = [nw.col(each.time).max() for each in self.topics if each.time in there]
        if self.horizon and self.horizon.deleted in there:
            asked.append(nw.col(self.horizon.deleted).cast(nw.Int64).sum().alias(_REMOVING))
        flagged = checked.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD))
        lines = collect_small(flagged.group_by(_DEAD, ACTS).agg(nw.len().alias(_READ), *asked))
        good = [line for line in lines if not line[_DEAD]]
        return _Profile(
            rows=sum(line[_READ] for line in lines),
            dead_letters=sum(line[_READ] for line in lines if line[_DEAD]),
            acting=sum(line[_READ] for line in good if line[ACTS]),
            removing=sum(line.get(_REMOVING) or 0 for line in good if line[ACTS]),
            watermarks={
                each.kept.topic.name: _behind(newest_of(line.get(each.time) for line in good), each)
                for each in self.topics
                if each.kept.topic.event_time
            },
        )


def _behind(newest: datetime | None, topic: TopicEtl) -> datetime | None:
    return None if newest is None else earlier(newest, topic.kept.topic.watermark_delay)
