"""The mark of an unfinished `headwater move`, in the target: its pipelines are not run there until it has ended.

It is one record for all pipelines of the move, ``headwater~.move``. It is written before the first row is copied, and
removed after the last one. So a pipeline that it names, and that has published nothing, is not copied or half copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from ..epoch.epoch import Offsets
from ..errors import EpochConflict, UnfinishedMove
from ..ports import VersionedStore
from .generation import SEPARATOR
from .record import Recorder, read_record

MOVE_FOLDER = f"headwater{SEPARATOR}"
_TABLE = f"{MOVE_FOLDER}.move"


@frozen
class UnderWay:
    """A move to these tables that has begun and not ended.

    Args:
        source: where it copies from, for display; empty if there is no such move.
        pipelines: by name, the number of the epoch that the source had published when the move began.
    """

    source: str = ""
    pipelines: Mapping[str, int] = MappingProxyType({})

    def with_more(self, source: str, pipelines: Mapping[str, int]) -> UnderWay:
        """A move from this source that copies more pipelines; those that it copies already stay as they are."""
        return UnderWay(source, {**pipelines, **self.pipelines})

    def without(self, pipelines: Mapping[str, object]) -> UnderWay:
        """The move when these pipelines are copied; it has ended if none is left."""
        left = {name: number for name, number in self.pipelines.items() if name not in pipelines}
        return evolve(self, pipelines=left) if left else UnderWay()

    @classmethod
    def parse(cls, recorded: Offsets) -> UnderWay:
        """What `record_move` has recorded."""
        return cls(recorded.get("source", ""), recorded.get("pipelines", {}))


def read_move(store: VersionedStore) -> UnderWay:
    """The unfinished move to the tables of a store, from metadata; one without pipelines if there is none."""
    return UnderWay.parse(read_record(store, _TABLE))


def check_copied(store: VersionedStore, pipeline: str) -> None:
    """Check that no unfinished move copies a pipeline to these tables.

    Raises:
        UnfinishedMove: one does; the message says how to finish it, and how to give it up.
    """
    move = read_move(store)
    if pipeline in move.pipelines:
        raise UnfinishedMove(
            f"pipeline {pipeline!r} is not ready here: a `headwater move` from {move.source} to these tables has not"
            " ended, so rows may be missing. Run the same `headwater move` again: it resumes the copy. To give the move"
            f" up, remove the folder {MOVE_FOLDER} at backend.path, and those of its pipelines:"
            f" {', '.join(move.pipelines)}"
        )


def record_move(recorder: Recorder, before: UnderWay, after: UnderWay) -> None:
    """Record a move by one commit.

    Args:
        recorder: of the process that moves, on the target's tables.
        before: what is on record now.
        after: what is recorded.

    Raises:
        EpochConflict: another process has recorded something else; nothing was changed.
    """

    def check(there: Offsets) -> None:
        if UnderWay.parse(there) != before:
            raise EpochConflict(
                "another `headwater move` to the same tables has begun or ended meanwhile; let one at a time run,"
                " and run it again: it resumes the copy"
            )

    recorder.replace(_TABLE, {"source": after.source, "pipelines": dict(after.pipelines)}, check)
