"""Headwater keeps derived tables exact in near real time, on tables that any engine can read."""

from importlib.metadata import version

from .app.api import Headwater
from .app.config import (
    AlertSettings,
    BackendSettings,
    Deployment,
    FilesInput,
    KafkaInput,
    KafkaOutput,
    PipelineSettings,
    RunSettings,
    SourceSettings,
    StreamInput,
    TelemetrySettings,
)
from .app.read.latency import Latency
from .app.read.status import PipelineStatus
from .app.run.rebuild import Rebuilt
from .app.run.report import EpochReport
from .domain.errors import HeadwaterError
from .domain.ledger.label import Label
from .domain.ledger.latency import Span
from .domain.ledger.retention import Retention
from .domain.service.ranking import RankingSettings
from .domain.source.record_spec import RecordSpec
from .domain.table.schema import Schema

__version__ = version("headwater")

__all__ = [
    "AlertSettings",
    "BackendSettings",
    "Deployment",
    "EpochReport",
    "FilesInput",
    "Headwater",
    "HeadwaterError",
    "KafkaInput",
    "KafkaOutput",
    "Label",
    "Latency",
    "PipelineSettings",
    "PipelineStatus",
    "RankingSettings",
    "Rebuilt",
    "RecordSpec",
    "Retention",
    "RunSettings",
    "Schema",
    "SourceSettings",
    "Span",
    "StreamInput",
    "TelemetrySettings",
    "__version__",
]
