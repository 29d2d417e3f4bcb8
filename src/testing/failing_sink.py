"""A sink whose process dies, or whose other end is away, at a chosen epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from ..domain.errors import SinkUnavailable
from ..domain.ports import StreamSink
from .failing_store import Crash

if TYPE_CHECKING:
    import narwhals as nw

    from ..domain.epoch import Publication
    from ..domain.ports import Receipt
    from .failing_store import Fault


@define(eq=False)
class FailingSink(StreamSink):
    """A real sink that fails as told; a fault's commits are its publishings, of which 1 is the first."""

    sink: StreamSink
    fault: Fault
    _times: int = 0

    def published(self) -> Receipt | None:
        """As the sink does."""
        return self.sink.published()

    def claim(self) -> Receipt | None:
        """As the sink does."""
        return self.sink.claim()

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        """As the sink does, unless it is time to fail."""
        self._times += 1
        if self._times == self.fault.commit and self.fault.before:
            self._fail()
        self.sink.publish(changes, publication)
        if self._times == self.fault.commit:
            self._fail()

    def _fail(self) -> None:
        if self.fault.passing:
            raise SinkUnavailable("the sink is told to be away for a moment")
        raise Crash
