"""Reads a deployment from a TOML file with environment overrides."""

from ..deployment.deployment import (
    AlertSettings,
    BackendSettings,
    BulkFiles,
    BulkInput,
    BulkJdbc,
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
from .load import load, load_tables, load_text

__all__ = [
    "AlertSettings",
    "BackendSettings",
    "BulkFiles",
    "BulkInput",
    "BulkJdbc",
    "Deployment",
    "FilesInput",
    "KafkaInput",
    "KafkaOutput",
    "PipelineSettings",
    "RunSettings",
    "SourceSettings",
    "StreamInput",
    "TelemetrySettings",
    "load",
    "load_tables",
    "load_text",
]
