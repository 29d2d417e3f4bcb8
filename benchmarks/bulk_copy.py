"""One side of `benchmarks.bulk_merge`, the floor: an engine copies the bulk into a plain Delta table.

python -m benchmarks.bulk_copy ENGINE CHUNK_ROWS FOLDER HOME
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import time

from headwater import Headwater

from .bulk_headwater import deployment
from .floors import floor_of
from .sides import Figures, folder_bytes


def main() -> int:
    """Measure, and write the figures to a file."""
    engine, chunk_rows, (folder, home) = sys.argv[1], int(sys.argv[2]), map(Path, sys.argv[3:])
    with Headwater.from_config(deployment(folder, home, chunk_rows, engine)) as headwater:
        headwater.start()
        floor = floor_of(f"delta:{engine}", home)
        began = time()
        seconds = floor.append(folder / "bulk")
        Figures(
            began,
            seconds,
            state_bytes=folder_bytes(home / ("plain" if engine == "spark" else "bench")),
            view=floor.read(),
        ).write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
