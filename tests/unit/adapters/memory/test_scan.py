"""Plain files that change while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headwater.adapters.memory import scan
from headwater.domain.errors import ConfigError, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("read", [scan.scan_files, scan.columns_at, scan.state])
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_file_that_is_removed_after_it_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[str, str], Any], format_: str
) -> None:
    list_files = scan._files

    def list_and_replace(path: str, format_: str) -> list[Path]:
        found = list_files(path, format_)
        (tmp_path / "1").rename(tmp_path / "2")
        return found

    (tmp_path / "1").write_text('{"id": 1}\n')
    monkeypatch.setattr(scan, "_files", list_and_replace)
    with pytest.raises(SourceUnavailable, match=f"{tmp_path} changed while it was read: .*No such file"):
        read(str(tmp_path), format_)
    monkeypatch.undo()
    read(str(tmp_path), format_)


def test_columns_are_asked_for_without_reading_the_rows(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text('\ufeff\n"i\nd",v\n1,2,3\n', encoding="utf-8")
    assert scan.columns_at(str(tmp_path), "csv").columns == ["i\nd", "v"]
    with pytest.raises(ConfigError, match="2 fields wanted, not 3"):
        scan.scan_files(str(tmp_path), "csv")


def test_a_column_of_nulls_only_has_the_type_of_other_files(tmp_path: Path) -> None:
    pl.DataFrame({"id": [1], "v": [None]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"id": [2], "v": ["a"]}).write_parquet(tmp_path / "2.parquet")
    assert scan.scan_files(str(tmp_path), "parquet").collect(backend="polars").rows() == [(1, None), (2, "a")]


@pytest.mark.parametrize("at", [pl.col("at"), pl.struct("at").alias("at")], ids=["plain", "nested"])
def test_times_finer_than_a_microsecond(tmp_path: Path, at: pl.Expr) -> None:
    file = tmp_path / "1.parquet"

    def write(*nanos: int | None) -> None:
        times = pl.Series("at", nanos, pl.Int64).cast(pl.Datetime("ns", "UTC"))
        times.to_frame().select(at).write_parquet(file)

    write(1_700_000_000_123_456_000, None)
    assert scan.scan_files(str(file), "parquet").collect(backend="polars").shape == (2, 1)
    write(1_700_000_000_123_456_000, None, -1)
    assert scan.columns_at(str(file), "parquet").columns == ["at"]
    with pytest.raises(ConfigError, match=f"{file}: column 'at' has times finer than a microsecond; round them"):
        scan.scan_files(str(file), "parquet")
