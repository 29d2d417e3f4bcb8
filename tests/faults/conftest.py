"""A small deployment on each backend in turn, to be broken."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .broken import Broken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broken(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Broken]:
    """A deployment that has published two epochs, on the session of all tests where it needs one."""
    session = None if backend == "memory" else request.getfixturevalue("spark")
    with ExitStack() as exits:
        broken = Broken.deployed(tmp_path, backend, exits, session)
        broken.runs(0, 1)
        yield broken
