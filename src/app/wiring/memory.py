"""How much memory an epoch may use on the local engine, if the deployment chooses an engine for each epoch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_MEBIBYTE = 1024 * 1024
_SHARE = 8
"""The process of an epoch was seen to grow by two to five times what is counted: Polars computes in more memory."""
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def local_bytes(local_mb: int | None) -> int:
    """The memory of an epoch on the local engine, in bytes.

    Args:
        local_mb: the setting, in mebibytes; None for an eighth of the memory of the machine, or of the container.
    """
    return _machine_bytes() // _SHARE if local_mb is None else local_mb * _MEBIBYTE


def _machine_bytes() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _GROUP_LIMITS:
        with suppress(OSError, ValueError):  # there is no such limit, or it is "max"
            limits.append(int(Path(file).read_text(encoding="ascii")))
    return min(limits)
