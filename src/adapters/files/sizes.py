"""The size of a file's records, as far as it is known without reading them."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow.parquet as pq

from ...domain.errors import BadInput
from ...domain.source.epoch_size import EpochSize
from ...domain.source.record_spec import RecordSpec
from .splits import check

_TRAILER = 4
"""A gzipped file ends with the size of its last part, unpacked, in as many bytes; most have one part."""


def size_of(path: Path, spec: RecordSpec) -> EpochSize | None:
    """The unpacked size of a file's records; rows are counted for Parquet only.

    None if the file cannot be read, for a reason that reading it reports.
    """
    try:
        check(path, spec)
        if spec.format == "parquet":
            footer = pq.read_metadata(path)
            groups = (footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
            return EpochSize(footer.num_rows, sum(groups))
        return EpochSize(bytes=_unpacked(path))
    except (BadInput, OSError, EOFError, zlib.error):
        return None


def _unpacked(path: Path) -> int:
    """The bytes of a file of lines; of a compressed one, at least those that are stored."""
    stored = path.stat().st_size
    if path.suffix != ".gz" or stored < _TRAILER:
        return stored
    with path.open("rb") as file:
        file.seek(-_TRAILER, 2)
        return max(stored, int.from_bytes(file.read(), "little"))
