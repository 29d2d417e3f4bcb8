"""Makes frames that a program hands over the next epochs of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from ...adapters.records.program_frames import is_of_spark, published_with_error
from ...domain.errors import ConfigError, EngineLimit
from ...domain.ports import PushedFrame, Source
from ..sources.stream import NO_STREAMS
from .runner import Runner


def function_of_batches(runner: Runner) -> Callable[[Any, int], None]:
    """See `Pipeline.foreach_batch`."""
    if runner.source.push is None:
        raise _reads_itself(runner)
    source = runner.large.source
    submit = source.submit
    if submit is None:
        raise NO_STREAMS.error("the engine of this backend")

    def take(rows: Any, batch: int) -> None:
        with runner.turn, submit(None, batch, rows):
            runner.do(partial(_run_lent, source))

    return take


def push(runner: Runner, frame: PushedFrame) -> bool:
    """Make a frame the next epoch of a pipeline; see `Pipeline.push`.

    Raises:
        ConfigError: the pipeline reads its source itself; or the frame has no number, and the last one is published
            although its push ended with an error.
    """
    source = runner.large.source if is_of_spark(frame.rows) else runner.source
    hand_over = source.push
    if hand_over is None:
        raise _reads_itself(runner)
    with runner.turn:
        _check_failed_pushes(runner, frame)
        runner.failed_pushes.add(frame.id)  # until it has ended without an error; Ctrl-C is one, too
        with hand_over(frame):
            published = runner.do(partial(_run_lent, source))
        runner.failed_pushes.clear()
        return published


def _run_lent(lender: Source, runner: Runner) -> bool:
    """Run the epoch of a frame that was handed over to a source, perhaps that of another engine."""
    with _lent(lender, runner.source):
        return Runner.advance(runner, idle=False)  # else a repeated frame may publish an epoch


def _lent(lender: Source, source: Source) -> AbstractContextManager[None]:
    if source is lender:
        return nullcontext()
    if source.borrow is None:
        raise EngineLimit("the frame is one of another engine")
    return source.borrow(lender)


def last_frame(runner: Runner) -> tuple[int, str | None]:
    """The number and the id of the last frame that a pipeline has published; see `Source.last_frame`."""
    return runner.source.last_frame(runner.current_ledger().offsets)


def _check_failed_pushes(runner: Runner, frame: PushedFrame) -> None:
    """Check that a frame without a number cannot be the repeat of one whose push failed after it was published."""
    if not runner.failed_pushes:
        return
    last, id_ = last_frame(runner)
    runner.failed_pushes &= {id_}  # the others are not published
    if runner.failed_pushes and frame.number is None:
        raise published_with_error(last, last)


def _reads_itself(runner: Runner) -> ConfigError:
    return ConfigError(f'pipeline {runner.pipeline!r} reads its source itself; give the source kind = "stream"')
