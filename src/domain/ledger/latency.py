"""Latency: the time until a record can be read, as expected from the settings and as measured from publications.

A record waits for the epoch that reads it. An epoch takes *c*; the next one begins after a pause of *d*. At best a
record arrives right before its epoch begins, and can be read after *c*. At worst it just misses an epoch, and can be
read after *c + d + c*. A batch stage over such pipelines begins every *b* and takes *e*. Its versions contain the
record after

    c + e  at best,    (c + d + c) + (b + e)  at worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from attrs import frozen

from ..duration import show_duration
from ..epoch.epoch import Publication


@frozen
class Span:
    """The minimum and maximum of some durations."""

    least: timedelta
    most: timedelta

    @classmethod
    def over(cls, durations: Iterable[timedelta]) -> Span | None:
        """The span of some measured durations; None if there are none.

        A negative one, of a clock that was set back meanwhile, is left out.
        """
        some = [duration for duration in durations if duration >= timedelta()]
        return cls(min(some), max(some)) if some else None

    def __str__(self) -> str:
        least, most = show_duration(self.least), show_duration(self.most)
        return least if least == most else f"{least} to {most}"


def of_stream(epoch: Span, pause: timedelta) -> Span:
    """The time until a record can be read from a pipeline.

    Args:
        epoch: the duration of its epochs (c).
        pause: the time from the end of one epoch to the start of the next (d).

    >>> from datetime import timedelta
    >>> str(of_stream(Span(timedelta(seconds=5), timedelta(seconds=5)), timedelta(seconds=1)))
    '5s to 11s'
    """
    return Span(epoch.least, epoch.most + pause + epoch.most)


def of_batch(inputs: Sequence[Span], batch: Span, every: timedelta) -> Span:
    """The time until a record can be read from a version of a batch stage.

    Args:
        inputs: for each pipeline that the stage reads, the time until the record can be read there.
        batch: the duration of a batch (e).
        every: the time from the start of one batch to the start of the next (b).

    >>> from datetime import timedelta
    >>> minute = timedelta(minutes=1)
    >>> str(of_batch([Span(minute / 12, minute / 6)], Span(minute, minute), 15 * minute))
    '1m5s to 16m10s'
    """
    least = min((span.least for span in inputs), default=type(every)())
    most = max((span.most for span in inputs), default=type(every)())
    return Span(least + batch.least, most + every + batch.most)


def epochs(publications: Iterable[Publication]) -> Span | None:
    """The duration of some epochs, from their start to their publication; None if no start is recorded."""
    return Span.over(each.published_at - each.began_at for each in publications if each.began_at)


def versions(
    published: Sequence[Publication],
    read: Mapping[int, Mapping[str, int | None]],
    inputs: Mapping[str, Mapping[int, Publication]],
) -> Span | None:
    """The time from the start of an input's epoch to the first version that contains it; None if unknown.

    It leaves out the time that records wait before their epoch, which is at most c + d.

    Args:
        published: versions, newest first, without a gap. The oldest only serves as the predecessor of the next one.
        read: by version, the last epoch read of each input.
        inputs: the known publications of each input, by epoch; older epochs are ignored.
    """
    ages = (
        version.published_at - publication.began_at
        for version, before in pairwise(published)
        for name, until in read[version.epoch.number].items()
        for publication in _new(inputs.get(name, {}), read[before.epoch.number].get(name), until)
        if publication.began_at
    )
    return Span.over(ages)


def _new(known: Mapping[int, Publication], after: int | None, until: int | None) -> Iterator[Publication]:
    """The publications of an input that a version was the first to read."""
    first, last = (-1 if epoch is None else epoch for epoch in (after, until))
    return (publication for epoch, publication in known.items() if first < epoch <= last)
