"""Messages of commands, on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..run.progress import progress

if TYPE_CHECKING:
    from ..run.runner import EpochReport


def print_message(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def print_progress(report: EpochReport) -> None:
    """Print the progress line of an epoch."""
    print_message(progress(report))
