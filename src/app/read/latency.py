"""The age of query results: expected from the configuration, and measured from the publications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field, frozen

from ...domain.epoch.epoch import Publication
from ...domain.errors import HeadwaterError
from ...domain.ledger import latency
from ...domain.ledger.latency import Span
from ...domain.ledger.ledger import Ledger
from ...domain.service.base import Service
from ..deployment.deployment import Deployment

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
    """The latencies of a deployment's pipelines."""

    deployment: Deployment
    services: Mapping[str, Service]
    ledger: Callable[[str], Ledger]
    _walked: dict[str, Sequence[Publication]] = field(init=False, factory=dict)

    def of(self, pipeline: str) -> Latency:
        return Latency(self._expected(pipeline), self._measured(pipeline))

    def _expected(self, pipeline: str) -> Span | None:
        epoch = self._epoch(pipeline)
        if epoch is None:
            return None
        service = self.services[pipeline]
        if service.schedule is None:
            return latency.of_stream(epoch, self.deployment.run.poll)
        inputs = [self._expected(name) for name in dict.fromkeys(service.reads.values())]
        known = [span for span in inputs if span is not None]
        return latency.of_batch(known, epoch, service.schedule) if len(known) == len(inputs) else None

    def _epoch(self, pipeline: str) -> Span | None:
        """The duration of the epochs of a pipeline: as configured, else of the last ones."""
        if (takes := self.deployment.pipelines[pipeline].epoch_takes) is not None:
            return Span(takes, takes)
        return latency.epochs(self._newest(pipeline, _FEW))

    def _measured(self, pipeline: str) -> Span | None:
        published = self._newest(pipeline, _FEW)
        service = self.services[pipeline]
        if service.schedule is None:
            return latency.epochs(published)
        read = {each.epoch.number: service.epochs_read(each) for each in published}
        known = {name: self._newest(other, _MANY) for name, other in service.reads.items()}
        by_epoch = {name: {each.epoch.number: each for each in some} for name, some in known.items()}
        return latency.versions(published, read, by_epoch)

    def _newest(self, pipeline: str, count: int) -> Sequence[Publication]:
        """At most `count` of the newest publications, newest first; none if they cannot be read.

        The status of that pipeline then has the error as its alarm.
        """
        if len(self._walked.get(pipeline, ())) < count:
            try:
                self._walked[pipeline] = self.ledger(pipeline).known(count)
            except HeadwaterError:
                self._walked[pipeline] = ()
        return self._walked[pipeline][:count]
