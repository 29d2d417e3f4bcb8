"""The step of a wide-table pipeline: the changes that an epoch makes to its tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import evolve, frozen

from ...epoch.batch import ERROR, Batch
from ...epoch.watermark import newest_of, subtract
from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source import dead_letter
from ...source.topic_group import TOPIC
from ...table.apply import fill_columns
from ...table.change import POSITION, Change
from ...table.collect import collect_small
from ..base import Step
from .etl import ACTS, TopicEtl
from .horizon import Horizon
from .settings import WideTableSettings
from .tables import WideTables

_DEAD, _READ, _LETTERS, _REMOVING = "_dead", "_read", "_letters", "_removing"


@frozen
class _Profile:
    """The facts about a batch that decide the changes."""

    rows: int
    dead_letters: int
    acting: int
    removing: int
    watermarks: dict[str, datetime | None]


@frozen(eq=False)
class WideTableStep:
    """The step of one wide table. The records of each topic are merged into the columns of the topic."""

    settings: WideTableSettings
    tables: WideTables
    topics: tuple[TopicEtl, ...]
    engine: FrameCache
    horizon: Horizon | None

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        parts = [rows for topic in self.topics if (rows := topic.rows(batch)) is not None]
        checked = self.engine.persist(nw.concat(parts, how="diagonal"))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            # A record of which a table function made several rows is one dead letter.
            letters = checked.filter(~nw.col(ERROR).is_null()).unique(subset=[POSITION]) if self._generates else checked
            dead_letters = dead_letter.extract(letters, batch, self._format())
            changes[self.tables.dead_letters.name] = Change(append=dead_letters)
        good, wide = checked.filter(nw.col(ERROR).is_null(), nw.col(ACTS)), self.tables.wide.name
        if self.horizon:
            removing = good.filter(nw.col(self.horizon.deleted)) if profile.removing else None
            changes |= self.horizon.changes(good, removing, snapshot, profile.watermarks)
        if profile.acting:
            whole = fill_columns(good, self.tables.wide.schema, POSITION)  # null for topics that are not in the batch
            changes[wide] = evolve(changes.get(wide, Change()), merge=whole)
        return Step(changes, profile.rows, profile.dead_letters, None, profile.watermarks)

    @property
    def _generates(self) -> bool:
        return any(topic.columns.topic.generates for topic in self.topics)

    def _format(self) -> nw.Expr:
        """The format of each row's record."""
        first, *others = self.settings.topics
        format_ = nw.lit(first.format)
        for topic in others:
            format_ = nw.when(nw.col(TOPIC) == topic.name).then(nw.lit(topic.format)).otherwise(format_)
        return format_

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        names = set(checked.collect_schema().names())
        facts = [nw.col(each.time).max() for each in self.topics if each.time in names]
        if self.horizon and self.horizon.deleted in names:
            facts.append(nw.col(self.horizon.deleted).cast(nw.Int64).sum().alias(_REMOVING))
        flagged = checked.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD))
        letters = nw.col(POSITION).n_unique() if self._generates else nw.len()
        counts = (nw.len().alias(_READ), letters.alias(_LETTERS))
        lines = collect_small(flagged.group_by(_DEAD, ACTS).agg(*counts, *facts))
        good = [line for line in lines if not line[_DEAD]]
        dead_letters = sum(line[_LETTERS] for line in lines if line[_DEAD])
        return _Profile(
            rows=sum(line[_READ] for line in good) + dead_letters,
            dead_letters=dead_letters,
            acting=sum(line[_READ] for line in good if line[ACTS]),
            removing=sum(line.get(_REMOVING) or 0 for line in good if line[ACTS]),
            watermarks={
                each.columns.topic.name: _watermark(newest_of(line.get(each.time) for line in good), each)
                for each in self.topics
                if each.columns.topic.event_time
            },
        )


def _watermark(newest: datetime | None, topic: TopicEtl) -> datetime | None:
    return None if newest is None else subtract(newest, topic.columns.topic.watermark_delay)
