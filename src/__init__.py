"""Headwater keeps derived tables exact in near real time, on tables that any engine can read."""

from importlib.metadata import version

from .app.api import Headwater, PipelineStatus
from .app.config import (
    BackendSettings,
    Deployment,
    FilesInput,
    KafkaInput,
    KafkaOutput,
    PipelineSettings,
    RunSettings,
    SourceSettings,
    StreamInput,
)
from .app.latency import Latency
from .app.runner import EpochReport
from .domain.errors import HeadwaterError
from .domain.label import Label
from .domain.latency import Span
from .domain.ranking import RankingSettings
from .domain.retention import Retention
from .domain.schema import Schema
from .domain.source import RecordSpec

__version__ = version("headwater")

__all__ = [
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
    "RecordSpec",
    "Retention",
    "RunSettings",
    "Schema",
    "SourceSettings",
    "Span",
    "StreamInput",
    "__version__",
]
