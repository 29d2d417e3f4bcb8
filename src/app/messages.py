"""What commands tell people, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .progress import progress

if TYPE_CHECKING:
    from .runner import EpochReport


def say(text: str) -> None:
    """Tell a line."""
    print(text, file=sys.stderr, flush=True)


def tell_progress(report: EpochReport) -> None:
    """Tell of an epoch."""
    say(progress(report))
