"""Pushes a frame to all pipelines that read a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

from attrs import define, field

from ...adapters.records.program_frames import hold, published_with_error, whole_number
from ...domain.errors import ConfigError, EpochConflict
from ...domain.ports import PushedFrame
from .pipeline import Pipeline


@define(eq=False)
class _Pending:
    """A frame that is being pushed, or whose last push has ended with an error.

    Args:
        number, id: see `PushedFrame`.
        having: the pipelines that have it. They have published it, or had its number when the program first gave it.
        conflict: whether another program has pushed meanwhile.
    """

    number: int
    id: str = field(factory=lambda: uuid4().hex)
    having: set[str] = field(factory=set)
    conflict: bool = False

    def push(self, reader: Pipeline, rows: Any, *, claimed: bool) -> bool:
        """Push its rows to a pipeline, and note that it has them."""
        frame = PushedFrame(rows, self.number, self.id, claimed=claimed or reader.name in self.having)
        published = reader.hand_over(frame)
        self.having.add(reader.name)
        return published

    def lacking(self, readers: Sequence[Pipeline]) -> dict[str, int]:
        """The pipelines that are not known to have it, with the numbers of their last frames."""
        last = {each.name: each.last_frame for each in readers if each.name not in self.having}
        self.having |= {name for name, frame in last.items() if frame == (self.number, self.id)}
        return {name: number for name, (number, _) in last.items() if name not in self.having}


@define(eq=False)
class Pushes:
    """The pushes of a program. All pipelines that read a source take a frame with the same number."""

    _pending: dict[tuple[str, ...], _Pending] = field(init=False, factory=dict)
    """By pipelines, the last frame if its push to them has ended with an error; some of them may have it."""

    def push_to(self, reader: Pipeline, frame: Any, number: int | None) -> bool:
        """Push a frame to one pipeline; see `Pipeline.push`."""
        return self.push("", (reader,), frame, number)

    def push(self, source: str, readers: Sequence[Pipeline], frame: Any, number: int | None) -> bool:
        """Push a frame to the pipelines that read a source; see `Headwater.push`."""
        if number is None and len(readers) == 1:  # it knows whether the push that failed is published
            published = readers[0].hand_over(PushedFrame(frame, None))
            self._pending.pop(_names(readers), None)
            return published
        with hold(frame) if len(readers) > 1 else nullcontext(frame) as rows:
            if number is None:
                return self._push(readers, rows, _Pending(self._next_number(source, readers)), claimed=False)
            wanted, failed = whole_number(number), self._pending.get(_names(readers))
            if failed and failed.number == wanted:
                return self._push(readers, rows, failed, claimed=False)
            return self._push(readers, rows, _Pending(wanted), claimed=not (failed and failed.conflict))

    def _push(self, readers: Sequence[Pipeline], rows: Any, pending: _Pending, *, claimed: bool) -> bool:
        self._pending[_names(readers)] = pending
        try:
            published = [pending.push(each, rows, claimed=claimed) for each in readers]
        except BaseException as error:  # also Ctrl-C: the others have published
            pending.conflict = isinstance(error, EpochConflict)
            lacking = pending.lacking(readers) if pending.conflict else {}
            if pending.having or _taken(lacking, pending):
                error.add_note(_remedy(readers, pending, lacking))
            raise
        del self._pending[_names(readers)]
        return any(published)

    def _next_number(self, source: str, readers: Sequence[Pipeline]) -> int:
        """The number after the last one, which all readers must have; one that has none yet begins with this push.

        If it is not the same, the frame may be the repeat of one that failed in some of them: others would count it
        twice. A single reader is not asked: it knows whether the push that failed is published.
        """
        last, failed = {each.name: each.last_frame[0] for each in readers}, self._pending.get(_names(readers))
        newest, lacking = max(last.values()), failed.lacking(readers) if failed else last
        if failed and not lacking:
            raise published_with_error(failed.number, newest)
        begin = {newest} if failed and failed.conflict else {newest, -1}  # another program may push its first frame
        if len(lacking) == len(last) and begin.issuperset(last.values()):
            return newest + 1
        stand = ", ".join(f"{name} {'none' if each < 0 else each}" for name, each in last.items())
        if failed and len(lacking) < len(last):
            remedy = f"The last push failed: {_remedy(readers, failed, lacking)}"
        else:
            remedy = (
                f"If your program has pushed frame {newest}, and was started again, push it with number={newest}: those"
                " that have it skip it. If another program pushes to the source, wait until all have its frame"
            )
        raise ConfigError(
            f"not all pipelines that read source {source!r} have published the same frames; their last numbers:"
            f" {stand}. {remedy}. To push a new frame, give number={newest + 1}"
        )


def _names(readers: Sequence[Pipeline]) -> tuple[str, ...]:
    return tuple(each.name for each in readers)


def _remedy(readers: Sequence[Pipeline], pending: _Pending, lacking: Mapping[str, int]) -> str:
    """How to push a frame again that some pipelines lack; see `_Pending.lacking`."""
    having = [each.name for each in readers if each.name in pending.having]
    published = f"{', '.join(having) or 'no pipeline'} published this frame"
    if not (taken := _taken(lacking, pending)):
        return f"{published}: push it again with number={pending.number}"
    if not having:
        return f"{published}: push it again, without a number or with number={max(lacking.values()) + 1}"
    alone = " and ".join(f"pipeline({name!r}).push(frame)" for name in lacking)
    return f"{published}, but {', '.join(taken)} one of another program: push it again only with {alone}"


def _taken(lacking: Mapping[str, int], pending: _Pending) -> list[str]:
    """The pipelines that do not take a frame any more, because another program has pushed its number or a later one."""
    return [name for name, last in lacking.items() if last >= pending.number]
