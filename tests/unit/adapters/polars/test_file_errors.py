"""What errors about data files say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from headwater.adapters.polars.file_errors import explain_read_errors
from headwater.domain.errors import StoreUnavailable, VersionExpired

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_is_gone_may_have_expired_or_have_been_removed(tmp_path: Path) -> None:
    message = r"its version expired while it was read, or another program or a person removed it\. Read a newer"
    with pytest.raises(VersionExpired, match=message), explain_read_errors(tmp_path / "a.parquet"):
        pl.read_parquet(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "error",
    [PermissionError(13, "Permission denied"), pl.exceptions.ComputeError("parquet: underlying IO error: it is away")],
)
def test_a_file_that_cannot_be_read_says_where_to_look(error: Exception) -> None:
    message = r"stored rows cannot be reached just now: file a\.parquet: .*; look at the disk, and who may read it"
    with pytest.raises(StoreUnavailable, match=message), explain_read_errors("a.parquet"):
        raise error
