"""A column that no record of the first epoch has is warned of; one that some record has as null is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.domain.epoch.epoch import Offsets

TYPO = "(did you mean 'amount'?)"


class Folder:
    """A folder of files of one record each, read as an epoch each."""

    def __init__(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.path, self.caplog = path, caplog

    def warnings(self, schema: str, *files: str, format_: str = "json") -> list[str]:
        """What reading is warned of, without the place."""
        source = PolarsFileSource(FilesSettings(str(self.path)), RecordSpec(Schema.parse(schema), format_))
        after: Offsets | None = None
        for at, text in enumerate(files):
            (self.path / f"{at}.json").write_text(text)
            planned = source.plan(after, NOW)
            assert planned is not None
            source.read(planned)
            after = planned.until
        found = [each.getMessage() for each in self.caplog.records if each.levelname == "WARNING"]
        assert all(each.startswith(f"{self.path}: no record") for each in found)
        return [each.partition(" null in all its rows: ")[2].partition("; correct")[0] for each in found]


@pytest.fixture
def folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Folder:
    return Folder(tmp_path, caplog)


def lines(*records: dict[str, Any]) -> str:
    return "\n".join(json.dumps(each) for each in records)


def test_a_typo_is_told_with_the_field_that_is_there(folder: Folder) -> None:
    found = folder.warnings("id bigint, amuont int, z int", lines({"id": 1, "amount": 5}, {"id": 2}))
    assert found == [f"'amuont' {TYPO}, 'z'"]


def test_a_short_name_in_another_case_is_told(folder: Folder) -> None:
    assert folder.warnings("id bigint, at string, z int", lines({"ID": 1, "At": "x", "aid": 2})) == [
        "'id' (did you mean 'ID'?), 'at' (did you mean 'At'?), 'z'"
    ]


@pytest.mark.parametrize("records", [({"id": 1}, {"id": 2, "amount": None}), ({"id": 1}, {"id": "x", "amount": 1})])
def test_a_field_that_some_record_has_is_not(folder: Folder, records: tuple[dict[str, Any], ...]) -> None:
    assert folder.warnings("id bigint, amount int", lines(*records)) == []


def test_only_the_first_epoch_is_looked_at(folder: Folder) -> None:
    assert folder.warnings("id bigint, amount int", lines({"id": 1, "amount": 5}), lines({"id": 2})) == []


def test_no_row_is_no_reason(folder: Folder) -> None:
    assert folder.warnings("id bigint, amount int", "not JSON") == []


def test_a_name_is_looked_for_in_every_way_it_can_be_written(folder: Folder) -> None:
    assert folder.warnings("id bigint, größe int", lines({"id": 1, "größe": None})) == []


def test_a_changelogs_fields_are_those_of_its_rows(folder: Folder) -> None:
    row = {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1, "amount": 5}}
    assert folder.warnings("id bigint, amuont int", lines(row), format_="maxwell-json") == [f"'amuont' {TYPO}"]
