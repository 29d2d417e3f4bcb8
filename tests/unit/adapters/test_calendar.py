"""Files of Spark's former calendar are refused by readers that do not know it."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.polars.calendar import read_footer
from headwater.domain.errors import EngineLimit

if TYPE_CHECKING:
    from pathlib import Path


def _check(path: Path, rows: dict[str, list[object]], marks: dict[str, str]) -> None:
    pq.write_table(pa.table(rows).replace_schema_metadata(marks), path)
    read_footer(path)


@pytest.mark.parametrize("mark", ["org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96"])
def test_dates_of_the_former_calendar_are_refused(tmp_path: Path, mark: str) -> None:
    with pytest.raises(EngineLimit, match=r'rows\.parquet was written by Spark with .*LEGACY.*: set engine = "spark"'):
        _check(tmp_path / "rows.parquet", {"day": [date(1500, 1, 1)]}, {mark: ""})


def test_others_are_read(tmp_path: Path) -> None:
    _check(tmp_path / "days.parquet", {"day": [date(1500, 1, 1)]}, {"org.apache.spark.version": "3.5.9"})
    _check(tmp_path / "numbers.parquet", {"number": [1]}, {"org.apache.spark.legacyDateTime": ""})
