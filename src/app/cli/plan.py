"""The command ``headwater plan``: shows what an edit of the configuration changes."""

from __future__ import annotations

import sys

from ...domain.errors import ConfigError
from ...domain.table.schema import Schema
from ..api import Headwater
from ..run.clock import SystemClock
from ..wiring.edits import plan_edits
from .arguments import FORMAT, command
from .console import print_message
from .output import write

_EDITS = Schema.parse("kind string, name string, verdict string, details string")


@command
@FORMAT
def plan(*, config: str, form: str) -> None:
    """Show what an edit of the configuration changes; reads only, and fails if a run would."""
    headwater = Headwater.from_config(config)
    edits = plan_edits(headwater.deployment, headwater.services, SystemClock())
    if edits is None:
        backend = headwater.deployment.backend.name
        print_message(f"headwater: nothing is stored: backend {backend} builds all tables again in each run")
        return
    rows = ([each.kind, each.name, each.verdict.value, "; ".join(each.details) or None] for each in edits)
    write(sys.stdout, form, _EDITS, rows)
    if stopping := [f"{each.kind} {each.name}" for each in edits if each.stops]:
        raise ConfigError(f"a run would stop at {', '.join(stopping)}; nothing was changed")
