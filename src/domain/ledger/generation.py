"""Generations of a pipeline's tables: a rebuild makes the next one beside the current one, and then switches to it.

Generation 1 has the tables ``pipeline.table``, generation n has ``pipeline~n.table``. Which one is current is recorded
in the commits of a table without rows, ``pipeline~.generations``. A pipeline that was never rebuilt has no such table.
A number is never used twice, so an abandoned rebuild leaves nothing that a later one could take for its own.
"""

from __future__ import annotations

from attrs import asdict, evolve, frozen

from ..epoch.epoch import Offsets
from ..errors import EpochConflict
from ..ports import VersionedStore
from .record import Recorder, read_record

SEPARATOR = "~"
"""Between the name of a pipeline and the number of a generation; no name of a pipeline contains it."""


@frozen
class Generations:
    """Which generation of a pipeline's tables is current, and which one is being built.

    Args:
        current: the number of the one that is read.
        newest: the largest number that was ever used.
        building: the settings that the newest one is being built with, as a digest, and the backend; None if none is
            being built.
        closing: whether runs of the current one must stop, because the switch is near.
        built: the settings that the current one was built with, likewise; None if it is not a rebuilt one.
        first: the number of the first epoch that readers of the current one may ask for: the rebuild has published it
            right before the switch, and it is greater than each number of the generation before.
    """

    current: int = 1
    newest: int = 1
    building: str | None = None
    closing: bool = False
    built: str | None = None
    first: int = 0

    def begin(self, settings: str) -> Generations:
        """A new generation is being built, with these settings; what another rebuild has begun is abandoned."""
        return evolve(self, newest=self.newest + 1, building=settings, closing=False)

    def close(self, *, closing: bool = True) -> Generations:
        """Runs of the current generation must stop, or may go on."""
        return evolve(self, closing=closing)

    def cancel(self) -> Generations:
        """No generation is being built."""
        return evolve(self, building=None, closing=False)

    def switch(self, first: int) -> Generations:
        """The newest generation is current; readers may ask for its epochs from this number on."""
        return Generations(self.newest, self.newest, built=self.building, first=first)


def table_of(table: str, generation: int) -> str:
    """The name of a table, ``pipeline.table``, in a generation.

    >>> table_of("orders.ranked", 2)
    'orders~2.ranked'
    """
    pipeline, _, name = table.partition(".")
    return f"{folder_name(pipeline, generation)}.{name}"


def folder_name(pipeline: str, generation: int) -> str:
    """The name of the folder that has the tables of a generation, in the folder of the deployment's tables."""
    return pipeline if generation == 1 else f"{pipeline}{SEPARATOR}{generation}"


def generation_of(folder: str) -> tuple[str, int | None]:
    """The pipeline and the generation of a folder; None if it has the record of the generations.

    >>> generation_of("orders~2"), generation_of("orders"), generation_of("orders~")
    (('orders', 2), ('orders', 1), ('orders', None))
    >>> generation_of("orders~old")  # a user's own
    ('orders~old', 1)
    """
    pipeline, separated, number = folder.partition(SEPARATOR)
    if number and not number.isdecimal():
        return folder, 1
    return pipeline, int(number) if number else None if separated else 1


def read_generations(store: VersionedStore, pipeline: str) -> Generations:
    """The generations of a pipeline's tables, from metadata."""
    return Generations(**read_record(store, _record_table(pipeline)))


def record_generations(recorder: Recorder, pipeline: str, before: Generations, after: Generations) -> None:
    """Record the generations of a pipeline's tables by one commit.

    Args:
        recorder: of the process that rebuilds the pipeline.
        pipeline: its name.
        before: what is on record now.
        after: what is recorded.

    Raises:
        EpochConflict: another process has recorded something else; nothing was changed.
    """

    def check(recorded: Offsets) -> None:
        if (there := Generations(**recorded)) != before:
            raise EpochConflict(
                f"pipeline {pipeline!r} is being rebuilt by another process (generation {there.newest});"
                " nothing was changed. Let one `headwater rebuild` at a time work on a pipeline"
            )

    recorder.replace(_record_table(pipeline), asdict(after), check)


def _record_table(pipeline: str) -> str:
    return f"{pipeline}{SEPARATOR}.generations"
