"""Pushes a frame to all pipelines that read a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from ...adapters.records.program_frames import hold, published_with_error
from ...domain.errors import ConfigError
from .pipeline import Pipeline


@define(eq=False)
class Pushes:
    """The pushes of a program. All pipelines that read a source take a frame with the same number."""

    _failed: dict[str, int] = field(init=False, factory=dict)
    """By source, the number of the last frame if its push has ended with an error; some pipelines may have it."""

    def push(self, source: str, readers: Sequence[Pipeline], frame: Any, number: int | None) -> bool:
        """Push a frame to the pipelines that read a source; see `Headwater.push`."""
        if len(readers) == 1:
            return self._push(source, readers, frame, number)
        with hold(frame) as rows:
            return self._push(source, readers, rows, self._next_number(source, readers) if number is None else number)

    def _push(self, source: str, readers: Sequence[Pipeline], frame: Any, number: int | None) -> bool:
        published: list[str] = []
        for each in readers:
            try:
                if each.push(frame, number=number):
                    published.append(each.name)
            except BaseException as error:  # also Ctrl-C: the others have published
                if number is not None:
                    self._failed[source] = number
                    if published:
                        error.add_note(
                            f"{', '.join(published)} published this frame: push it again with number={number}"
                        )
                raise
        self._failed.pop(source, None)
        return bool(published)

    def _next_number(self, source: str, readers: Sequence[Pipeline]) -> int:
        """The number after the last one, which all readers must have; one that has none yet begins with this push.

        If it is not the same, the frame may be the repeat of one that failed in some of them: others would count it
        twice. A single reader is not asked: its source knows whether the push that failed is published.
        """
        last = {each.name: each.last_number for each in readers}
        newest = max(last.values())
        if self._failed.get(source) == newest == min(last.values()):
            raise published_with_error(newest)
        if self._failed.get(source) == newest or not {newest, -1}.issuperset(last.values()):
            stand = ", ".join(f"{name} {'none' if each < 0 else each}" for name, each in last.items())
            raise ConfigError(
                f"not all pipelines that read source {source!r} have published the same frames; their last numbers:"
                f" {stand}. To repeat frame {newest}, push it with number={newest}: those that have it skip it. To push"
                f" a new frame, give number={newest + 1}"
            )
        return newest + 1
