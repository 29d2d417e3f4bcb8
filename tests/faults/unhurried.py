"""Headwater's command line, for runs that are killed between two commits.

The local engine leaves a few milliseconds between the commits of an epoch, and before the commit of a compaction. Here
it rests at these moments, so that another process can see them, and strike.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from headwater.adapters.delta.local import store
from headwater.adapters.delta.local.compaction import prepare_compaction
from headwater.adapters.delta.local.log import LocalLog
from headwater.app.cli.main import main

_REST = 0.1
_append = LocalLog.append


def _append_and_rest(log: LocalLog, *arguments: Any, **more: Any) -> int:
    version = _append(log, *arguments, **more)
    time.sleep(_REST)
    return version


def _write_and_rest(*arguments: Any) -> Any:
    written = prepare_compaction(*arguments)
    time.sleep(_REST)
    return written


if __name__ == "__main__":
    LocalLog.append = _append_and_rest  # type: ignore[method-assign]
    store.prepare_compaction = _write_and_rest  # type: ignore[attr-defined]  # a name that the module imports
    sys.exit(main())
