"""The age of query results: expected from the configuration, and measured from the publications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ...domain.ledger import latency
from ...domain.ledger.latency import Span
from ...domain.service.snapshots import Plan, SnapshotSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...domain.epoch.epoch import Publication
    from ...domain.ledger.ledger import Ledger
    from ..config import Deployment

_FEW, _MANY = 20, 400
"""The number of publications to read: of a pipeline itself, and of the inputs of a snapshots pipeline."""


@frozen
class Latency:
    """The time until a record can be read; None if it is not known yet.

    Args:
        expected: from the configuration; if that does not set `epoch_takes`, the last epochs are used.
        measured: from the start of the epoch that read a record to the publication that contains it, over the last
            publications. The wait before that epoch is not included.
    """

    expected: Span | None
    measured: Span | None


@define(eq=False)
class Latencies:
    """The latencies of a deployment's pipelines.

    Args:
        deployment: with its pipelines.
        ledger: returns the current ledger of a pipeline, by its name.
    """

    deployment: Deployment
    ledger: Callable[[str], Ledger]
    _walked: dict[str, Sequence[Publication]] = field(init=False, factory=dict)

    def of(self, pipeline: str) -> Latency:
        """The latency of a pipeline."""
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
        """The duration of the epochs of a pipeline: as configured, else of the last ones."""
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
        """At most `count` of the newest publications, newest first."""
        if len(self._walked.get(pipeline, ())) < count:
            self._walked[pipeline] = self.ledger(pipeline).known(count)
        return self._walked[pipeline][:count]


def _epochs(publication: Publication, inputs: Mapping[str, str]) -> Mapping[str, int | None]:
    """The epoch at which a version has read each input; None for an input that it did not read."""
    read = Plan.of(publication.offsets).inputs
    return {name: at if isinstance(at := read.get(name), int) else None for name in inputs}
