"""What scenarios expect: moments, rows and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import narwhals as nw
import pytest

from ..domain import errors
from ..domain.errors import ConfigError, HeadwaterError
from .failing_store import Crash


def utc(moment: str) -> datetime:
    """The moment of an ISO text; in UTC if the text has no zone.

    Raises:
        ConfigError: it is not a time.
    """
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        raise ConfigError(f"{moment!r} is not a time such as 2024-03-01 09:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def rows_of(frame: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    """The rows of a frame as tuples of Python values.

    Arrow makes the values: Spark leaves out buffers of nested lists without elements, which Polars does not take.
    """
    columns = frame.collect(backend="pyarrow").to_native().columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def hashable(value: Any) -> Any:
    """A value as one that can be counted: nested values as tuples, structs with the names of their fields."""
    if isinstance(value, dict):
        return tuple((name, hashable(each)) for name, each in value.items())
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value


@contextmanager
def failing_with(name: str, words: str = "") -> Iterator[None]:
    """Expect an error of the class with this name, whose message matches the words."""
    if not isinstance(kind := getattr(errors, name, None), type) or not issubclass(kind, HeadwaterError):
        raise ConfigError(f"there is no error class {name!r}; headwater.domain.errors has them all")
    with pytest.raises(HeadwaterError, match=words or None) as caught:
        yield
    if type(caught.value) is not kind:
        raise AssertionError(f"expected {name}, but it failed with {type(caught.value).__name__}: {caught.value}")


@contextmanager
def crashing() -> Iterator[None]:
    """Expect the crash that a step asks for."""
    try:
        yield
    except Crash:
        return
    pytest.fail("it did not crash: it never came to that moment, perhaps because there was nothing new to read")


def missing(step: str) -> Any:
    """Return a fixture that another step sets; without that step, the scenario fails with its words."""

    @pytest.fixture
    def missing_step() -> None:
        pytest.fail(f"an earlier step of the scenario is missing: `{step}`")

    return missing_step
