"""A sink whose process dies, or which is unavailable once, at a chosen epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from headwater.domain.errors import SinkUnavailable
from headwater.domain.ports import Receipt, StreamSink
from headwater.testing.failing_store import Crash, Fault

if TYPE_CHECKING:
    import narwhals as nw

    from headwater.domain.epoch.epoch import Publication


@define(eq=False)
class FailingSink(StreamSink):
    """A real sink with one `Fault`; the fault's `commit` counts calls of `publish`, from 1."""

    sink: StreamSink
    fault: Fault
    _times: int = 0

    def published(self) -> Receipt | None:
        return self.sink.published()

    def claim(self) -> Receipt | None:
        return self.sink.claim()

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        """Publish to the sink; fail before or after that if this is the chosen call."""
        self._times += 1
        if self._times == self.fault.commit and self.fault.before:
            self._fail()
        self.sink.publish(changes, publication)
        if self._times == self.fault.commit:
            self._fail()

    def _fail(self) -> None:
        if self.fault.passing:
            raise SinkUnavailable("the test made the sink unavailable once")
        raise Crash
