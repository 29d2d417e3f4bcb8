"""What scenarios expect: moments, rows and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import narwhals as nw
import pytest

from ..domain.errors import HeadwaterError


def utc(moment: str) -> datetime:
    """The moment of an ISO text; in UTC if the text has no zone."""
    found = datetime.fromisoformat(moment)
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
    with pytest.raises(HeadwaterError, match=words or None) as caught:
        yield
    assert type(caught.value).__name__ == name
