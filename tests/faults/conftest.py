"""A small deployment on each backend in turn, to be broken."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .broken import WITHOUT_SPARK, Broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def session(request: pytest.FixtureRequest, backend: str) -> SparkSession | None:
    """The session of all tests, on a backend that needs one."""
    return None if backend in WITHOUT_SPARK else request.getfixturevalue("spark")


@pytest.fixture
def broken(session: SparkSession | None, backend: str, tmp_path: Path) -> Iterator[Broken]:
    """A deployment that has published two epochs."""
    with ExitStack() as exits:
        broken = Broken.deployed(tmp_path, backend, exits, session)
        broken.runs(0, 1)
        yield broken
