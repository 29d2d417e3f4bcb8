"""What scenarios expect: moments and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from ..domain.errors import HeadwaterError


def utc(moment: str) -> datetime:
    """The moment of an ISO text; in UTC if the text has no zone."""
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@contextmanager
def failing_with(name: str, words: str = "") -> Iterator[None]:
    """Expect an error of the class with this name, whose message matches the words."""
    with pytest.raises(HeadwaterError, match=words or None) as caught:
        yield
    assert type(caught.value).__name__ == name
