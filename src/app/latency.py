"""How old the answers of a deployment may be: as its configuration lets expect, and as its publications show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ..domain import latency
from ..domain.latency import Span
from ..domain.snapshots import Plan, SnapshotSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..domain.epoch import Publication
    from ..domain.ledger import Ledger
    from .config import Deployment

_FEW, _MANY = 20, 400
"""Publications looked at: those of a pipeline itself, and those of what a batch stage reads, which are more."""


@frozen
class Latency:
    """How long it takes until a record can be read; None where that cannot be told yet.

    Args:
        expected: from the configuration, and, where it does not say how long epochs take, from the last ones.
        measured: from the beginning of the epoch that read a record to the publication that holds it, over the last
            publications. The wait before that epoch is not in it.
    """

    expected: Span | None
    measured: Span | None


@define(eq=False)
class Latencies:
    """The latencies of a deployment's pipelines.

    Args:
        deployment: as configured.
        ledger: of a pipeline, by its name, as it is now.
    """

    deployment: Deployment
    ledger: Callable[[str], Ledger]
    _walked: dict[str, Sequence[Publication]] = field(init=False, factory=dict)

    def of(self, pipeline: str) -> Latency:
        """How old the answers of a pipeline are."""
        return Latency(self._expected(pipeline), self._measured(pipeline))

    def _expected(self, pipeline: str) -> Span | None:
        epoch = self._epoch(pipeline)
        if epoch is None:
            return None
        if (stage := self._stage(pipeline)) is None:
            return latency.of_stream(epoch, self.deployment.run.poll)
        inputs = [self._expected(name) for name in dict.fromkeys(stage.pipelines.values())]
        known = [span for span in inputs if span is not None]
        return latency.of_batch(known, epoch, stage.every) if len(known) == len(inputs) else None

    def _epoch(self, pipeline: str) -> Span | None:
        """How long the epochs of a pipeline take: as configured, else as the last ones did."""
        if (takes := self.deployment.pipelines[pipeline].epoch_takes) is not None:
            return Span(takes, takes)
        return latency.epochs(self._newest(pipeline, _FEW))

    def _measured(self, pipeline: str) -> Span | None:
        published = self._newest(pipeline, _FEW)
        if (stage := self._stage(pipeline)) is None:
            return latency.epochs(published)
        inputs = stage.pipelines
        read = {each.epoch.number: _epochs(each, inputs) for each in published}
        known = {name: self._newest(other, _MANY) for name, other in inputs.items()}
        by_epoch = {name: {each.epoch.number: each for each in some} for name, some in known.items()}
        return latency.versions(published, read, by_epoch)

    def _stage(self, pipeline: str) -> SnapshotSettings | None:
        settings = self.deployment.pipelines[pipeline].service
        return settings if isinstance(settings, SnapshotSettings) else None

    def _newest(self, pipeline: str, count: int) -> Sequence[Publication]:
        """The newest publications, so many of them if there are; newest first."""
        if len(self._walked.get(pipeline, ())) < count:
            self._walked[pipeline] = self.ledger(pipeline).known(count)
        return self._walked[pipeline][:count]


def _epochs(publication: Publication, inputs: Mapping[str, str]) -> Mapping[str, int | None]:
    """Up to which epoch a version has read its inputs; None for one that it did not read."""
    read = Plan.of(publication.offsets).inputs
    return {name: at if isinstance(at := read.get(name), int) else None for name in inputs}
