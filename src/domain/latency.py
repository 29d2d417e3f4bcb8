"""How old an answer may be: what to expect of the way pipelines run, and what their publications show.

A record waits for the epoch that reads it. With epochs that take *c* and begin a wait of *d* after the one before, it
can be read after *c* at best, when it came right before its epoch began, and after *c + d + c* at worst, when it just
missed one. A batch stage over such pipelines begins every *b* and takes *e*, so that its versions hold the record after

    c + e  at best,    (c + d + c) + (b + e)  at worst.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import frozen

from .duration import show_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from .epoch import Publication


@frozen
class Span:
    """From the least to the most of some durations."""

    least: timedelta
    most: timedelta

    @classmethod
    def over(cls, durations: Iterable[timedelta]) -> Span | None:
        """The span of some durations; None if there are none."""
        some = list(durations)
        return cls(min(some), max(some)) if some else None

    def __str__(self) -> str:
        least, most = show_duration(self.least), show_duration(self.most)
        return least if least == most else f"{least} to {most}"


def of_stream(epoch: Span, pause: timedelta) -> Span:
    """How long a record takes to be read from a pipeline.

    Args:
        epoch: how long its epochs take (c).
        pause: the wait between the end of one and the beginning of the next (d).

    >>> from datetime import timedelta
    >>> str(of_stream(Span(timedelta(seconds=5), timedelta(seconds=5)), timedelta(seconds=1)))
    '5s to 11s'
    """
    return Span(epoch.least, epoch.most + pause + epoch.most)


def of_batch(inputs: Sequence[Span], batch: Span, every: timedelta) -> Span:
    """How long a record takes to be read from the versions of a batch stage.

    Args:
        inputs: how long it takes to be read from each pipeline that the stage reads.
        batch: how long the stage itself takes (e).
        every: the time from the beginning of one batch to that of the next (b).

    >>> from datetime import timedelta
    >>> minute = timedelta(minutes=1)
    >>> str(of_batch([Span(minute / 12, minute / 6)], Span(minute, minute), 15 * minute))
    '1m5s to 16m10s'
    """
    least = min((span.least for span in inputs), default=type(every)())
    most = max((span.most for span in inputs), default=type(every)())
    return Span(least + batch.least, most + every + batch.most)


def epochs(publications: Iterable[Publication]) -> Span | None:
    """How long the epochs of some publications took, up to the publication; None where none tells."""
    return Span.over(each.published_at - each.began_at for each in publications if each.began_at)


def versions(
    published: Sequence[Publication],
    read: Mapping[int, Mapping[str, int | None]],
    inputs: Mapping[str, Mapping[int, Publication]],
) -> Span | None:
    """How long it took from when an epoch of an input began to the first version that holds it.

    What its records waited before is not seen: c + d at most.

    Args:
        published: versions, newest first, without a gap. The oldest only tells what the next one had before it.
        read: by version, up to which epoch each input was read.
        inputs: the publications of each input by epoch, as far back as they are known; what is older is passed over.
    """
    return Span.over(_ages(published, read, inputs))


def _ages(
    published: Sequence[Publication],
    read: Mapping[int, Mapping[str, int | None]],
    inputs: Mapping[str, Mapping[int, Publication]],
) -> Iterator[timedelta]:
    for version, before in pairwise(published):
        now, then = read[version.epoch.number], read[before.epoch.number]
        for name, until in now.items():
            for publication in _new(inputs.get(name, {}), then.get(name), until):
                if publication.began_at:
                    yield version.published_at - publication.began_at


def _new(known: Mapping[int, Publication], after: int | None, until: int | None) -> Iterator[Publication]:
    """The publications of an input that a version was the first to read."""
    first, last = (-1 if epoch is None else epoch for epoch in (after, until))
    return (publication for epoch, publication in known.items() if first < epoch <= last)
