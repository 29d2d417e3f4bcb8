"""How many examples a property draws."""

import os


def examples(full: int) -> int:
    """All of them in `make test-all`, which sets HEADWATER_EXAMPLES=all; elsewhere a tenth, and two at least."""
    return full if os.environ.get("HEADWATER_EXAMPLES") == "all" else max(full // 10, 2)
