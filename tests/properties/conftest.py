"""What several properties open; it is closed after all their schedules."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def exits() -> Iterator[ExitStack]:
    """Closes what was opened."""
    with ExitStack() as opened:
        yield opened
