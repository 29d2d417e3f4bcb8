"""The interfaces that the domain needs. Adapters subclass them; a missing method fails when the object is created.

Ports use only domain types and narwhals frames. A method that a backend cannot support raises `NotSupported`.
"""

from __future__ import annotations

from .bulk_source import BulkFaults, BulkRows, BulkSource
from .engines import FrameCache, FrameEngine, FrameExchange, FrameFunctions, FrameOrder, Order, QueryEngine, RankMethod
from .sinks import Receipt, StreamSink
from .sources import (
    Alarm,
    DeadLetterReader,
    Now,
    Pace,
    PushedFrame,
    RebuildCheck,
    Source,
    StreamBounds,
    StreamSource,
    other_kind,
)
from .system import Clock
from .tables import (
    BaseReading,
    Commit,
    Expiry,
    KeptStore,
    Leases,
    LeasingKeeper,
    SmallFiles,
    TableHistory,
    TableKeeper,
    TableReader,
    TableStore,
    Version,
    VersionedStore,
)

__all__ = [
    "Alarm",
    "BaseReading",
    "BulkFaults",
    "BulkRows",
    "BulkSource",
    "Clock",
    "Commit",
    "DeadLetterReader",
    "Expiry",
    "FrameCache",
    "FrameEngine",
    "FrameExchange",
    "FrameFunctions",
    "FrameOrder",
    "KeptStore",
    "Leases",
    "LeasingKeeper",
    "Now",
    "Order",
    "Pace",
    "PushedFrame",
    "QueryEngine",
    "RankMethod",
    "RebuildCheck",
    "Receipt",
    "SmallFiles",
    "Source",
    "StreamBounds",
    "StreamSink",
    "StreamSource",
    "TableHistory",
    "TableKeeper",
    "TableReader",
    "TableStore",
    "Version",
    "VersionedStore",
    "other_kind",
]
