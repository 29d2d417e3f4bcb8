"""The engines that every source test runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import frozen

from headwater.domain.table.change import POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    import narwhals as nw

    from headwater.adapters.files.listing import FilesSettings
    from headwater.adapters.kafka.settings import KafkaSettings
    from headwater.domain.epoch.epoch import OffsetRange
    from headwater.domain.ports import StreamSource
    from headwater.domain.source.record_spec import RecordSpec


@frozen
class Engine:
    """Makes the sources of one engine."""

    name: str
    files: Callable[[FilesSettings, RecordSpec], StreamSource]
    kafka: Callable[[KafkaSettings, RecordSpec], StreamSource]


def rows(frame: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    """The rows of a frame by position, as plain values; times in UTC."""
    table = frame.collect("pyarrow").to_arrow()
    return sorted(table.to_pylist(), key=lambda row: row[POSITION])


def read_explained(engine: Engine, source: StreamSource, offsets: OffsetRange) -> None:
    """Read as the runner does, which translates errors of Spark's workers."""
    if engine.name == "polars":
        rows(source.read(offsets))
        return
    from headwater.adapters.spark.errors import explain_read_errors

    with explain_read_errors():
        rows(source.read(offsets))


def _polars() -> Engine:
    from headwater.adapters.files.polars_source import PolarsFileSource
    from headwater.adapters.kafka.polars_source import PolarsKafkaSource

    return Engine("polars", PolarsFileSource, PolarsKafkaSource)


def _spark(request: pytest.FixtureRequest) -> Engine:
    from headwater.adapters.files.spark_source import SparkFileSource
    from headwater.adapters.kafka.spark_source import SparkKafkaSource

    session = request.getfixturevalue("spark")
    return Engine(
        "spark",
        lambda settings, spec: SparkFileSource(settings, spec, session),
        lambda settings, spec: SparkKafkaSource(settings, spec, session),
    )


@pytest.fixture(params=["polars", pytest.param("spark", marks=[pytest.mark.delta, pytest.mark.contract])])
def engine(request: pytest.FixtureRequest) -> Engine:
    """One engine after the other."""
    return _polars() if request.param == "polars" else _spark(request)
