"""A store that finds the current generation of each pipeline's tables: the one place where names become folders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

import narwhals as nw
from attrs import define, evolve, field, frozen

from ..epoch.epoch import Mark
from ..errors import EpochConflict, PipelineRebuilt
from ..ports import BaseReading, Commit, Expiry, KeptStore, Version
from ..table.change import Change, Matching
from ..table.lease import Lease
from ..table.schema import Schema
from ..table.spec import TableSpec
from .generation import SEPARATOR, Generations, read_generations, table_of
from .move_record import check_copied


@define(eq=False)
class GenerationStore(KeptStore):
    """A store whose tables ``pipeline.table`` are those of the pipeline's current generation.

    The generation of a pipeline is looked up when it is first used, and stays the same for this object. So a version
    never means a version of another generation. If the pipeline is rebuilt meanwhile, `check_current` refuses it, and
    what was read before stays readable.

    Args:
        store: has the tables of all generations.
        building: by pipeline, the generation that is being built, and that is used instead of the current one.
        opened: by pipeline, the record of the generations by which the current one is used.
    """

    store: KeptStore
    building: Mapping[str, int] = field(default=MappingProxyType({}))
    opened: dict[str, Generations] = field(factory=dict)

    def for_building(self, pipeline: str, generation: int) -> GenerationStore:
        """The same store, with the tables of one pipeline in a generation that is being built."""
        return GenerationStore(self.store, {pipeline: generation})

    def place_of(self, table: str) -> str:
        """The name of a table in its generation."""
        pipeline = table.partition(".")[0]
        if SEPARATOR in pipeline:
            return table
        if pipeline in self.building:
            return table_of(table, self.building[pipeline])
        return table_of(table, self._open(pipeline).current)

    def first_epoch(self, pipeline: str) -> int:
        return 0 if SEPARATOR in pipeline or pipeline in self.building else self._open(pipeline).first

    def _open(self, pipeline: str) -> Generations:
        if pipeline not in self.opened:
            self.opened.setdefault(pipeline, read_generations(self.store, pipeline))
        return self.opened[pipeline]

    def check_current(self, pipeline: str, *, writes: bool = False) -> None:
        if SEPARATOR in pipeline:
            return
        there = read_generations(self.store, pipeline)
        if pipeline in self.building:
            _check_built(pipeline, self.building[pipeline], there)
        elif there.current != (opened := self.opened.setdefault(pipeline, there).current):
            raise PipelineRebuilt(
                f"pipeline {pipeline!r} has been rebuilt as generation {there.current}, and this process has opened"
                f" generation {opened}: start it again, with the configuration of the rebuild"
            )
        elif writes and there.closing:
            raise EpochConflict(
                f"pipeline {pipeline!r}: `headwater rebuild` is about to switch to the rebuilt tables, so the old ones"
                " are not written any more; nothing was published. Start the run again with the edited configuration"
                " when the rebuild has ended; if it was killed, run the same `headwater rebuild` again, or give it up"
                " with --cancel"
            )

    def check_copied(self, pipeline: str) -> None:
        if SEPARATOR not in pipeline:
            check_copied(self.store, pipeline)

    # ---- tables ----------------------------------------------------------------------------------------------------

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        place = self.place_of(spec.name)
        if published is not None and spec.name in published:
            published = {**published, place: published[spec.name]}
        return self.store.ensure(spec if place == spec.name else evolve(spec, name=place), published)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        return self.store.read(self.place_of(table), at, matching)

    def look_up(
        self, table: str, at: Version | None, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        return self.store.look_up(self.place_of(table), at, asked, matching, columns)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        return self.store.commit(self.place_of(table), change, mark)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        return self.store.rollback(self.place_of(table), to, mark)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        return self.store.changes(self.place_of(table), after, until)

    def changed_keys(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        return self.store.changed_keys(self.place_of(table), after, until)

    # ---- history ---------------------------------------------------------------------------------------------------

    def versions(self, table: str) -> Iterator[Commit]:
        return self.store.versions(self.place_of(table))

    def version(self, table: str, version: Version) -> Commit:
        return self.store.version(self.place_of(table), version)

    def size(self, table: str, at: Version) -> int:
        return self.store.size(self.place_of(table), at)

    # ---- upkeep and leases -----------------------------------------------------------------------------------------

    def compact(self, table: str) -> Version | None:
        return self.store.compact(self.place_of(table))

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        return evolve(self.store.expire(self.place_of(table), keep, now=now, dry_run=dry_run), table=table)

    def expired(self, table: str) -> Collection[Version]:
        return self.store.expired(self.place_of(table))

    def sibling(self) -> KeptStore | None:
        store = self.store.sibling()
        return store and GenerationStore(store, self.building, self.opened)

    def pin(self, lease: Lease) -> None:
        self.store.pin(evolve(lease, table=self.place_of(lease.table)))

    def unpin(self, table: str, lease_id: str) -> None:
        self.store.unpin(self.place_of(table), lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        return [evolve(lease, table=table) for lease in self.store.leases(self.place_of(table))]


def _check_built(pipeline: str, generation: int, there: Generations) -> None:
    """Check that a generation is still being built."""
    if there.building is None or there.newest != generation:
        raise PipelineRebuilt(
            f"pipeline {pipeline!r}: another `headwater rebuild` has begun or ended meanwhile, so generation"
            f" {generation} is not continued; nothing was published"
        )


@frozen(eq=False)
class GenerationBase(BaseReading):
    """Reads of the base files of each pipeline's current generation."""

    store: GenerationStore
    base: BaseReading

    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        return self.base.read_optimized(self.store.place_of(table), matching)
