"""A deployment: one TOML file with environment overrides, read into values."""

from .load import load
from .values import (
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
)

__all__ = [
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
    "load",
]
