"""What is recorded of the settings by which records are read, and what their order in the file does not change."""

from __future__ import annotations

import pytest

from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.csv_format import CsvFormat
from headwater.domain.source.decoding import decoding_of, key_decoding, subtracted_decoding
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.fingerprint import CHANGES, changed_settings, fingerprint
from headwater.domain.table.schema import Schema

METADATA = {"db": "database", "at": "commit_time"}


def changelog(columns: str, *tables: str) -> RecordSpec:
    changes = ChangeSpec(key=("id",), tables=tables, metadata=METADATA)
    return RecordSpec(Schema.parse(columns), "maxwell-json", changes=changes)


def test_the_order_of_columns_and_tables_is_not_a_setting() -> None:
    one = changelog("id int, db string, at timestamp", "d.a", "d.b")
    other = changelog("at timestamp, db string, id int", "d.b", "d.a")
    assert key_decoding(one, ["db", "at"]) == key_decoding(other, ["db", "at"])
    assert key_decoding(one, ["db", "at"]) == {"metadata": "at = commit_time, db = database"}
    assert decoding_of(one) == decoding_of(other)


def test_the_order_of_the_texts_that_are_null_is_not_a_setting() -> None:
    one, other = (
        RecordSpec(Schema.parse("id int"), "csv", csv=CsvFormat(null_value=nulls)) for nulls in (("", "-"), ("-", ""))
    )
    assert decoding_of(one) == decoding_of(other)
    assert decoding_of(one)["null_value"] == "'', '-'"


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_the_unit_of_times_is_recorded_only_if_it_is_set(format_: str) -> None:
    columns = Schema.parse("id int, at timestamp")
    none, ms, us = (RecordSpec(columns, format_, changes=ChangeSpec(time_unit=unit)) for unit in (None, "ms", "us"))
    assert key_decoding(none, ["at"]) == {"time_zone": "UTC"}
    assert key_decoding(ms, ["id"]) == {}
    old, other, new = (fingerprint("a", {}, fixed_decoding=key_decoding(each, ["at"])) for each in (none, us, ms))
    assert changed_settings(old, new) is None  # numbers were dead letters
    assert changed_settings(other, new) == "settings of its source: time_unit us -> ms"


PLAIN = RecordSpec(Schema.parse("op string, id int"), "json")
MARKED = RecordSpec(PLAIN.schema, "json", row_kind="op")
MESSAGES = changelog("id int, db string, at timestamp")


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "of before it was recorded"])
@pytest.mark.parametrize(
    ("built", "now", "expected"),
    [
        (PLAIN, MESSAGES, f"{CHANGES} no -> yes"),
        (MESSAGES, PLAIN, f"{CHANGES} yes -> no"),
        (PLAIN, MARKED, f"{CHANGES} no -> yes, row_kind none -> op"),
        (MARKED, MESSAGES, None),
        (MESSAGES, MARKED, None),
        (PLAIN, PLAIN, None),
    ],
)
def test_rows_that_were_all_added_do_not_become_changes(
    built: RecordSpec, now: RecordSpec, expected: str | None, *, recorded: bool
) -> None:
    old, new = ({**subtracted_decoding(each, ["id"])} for each in (built, now))
    if not recorded:
        del old[CHANGES]
    found = changed_settings(*(fingerprint("text", {}, fixed_decoding=each) for each in (old, new)))
    assert found == (expected and f"settings of its source: {expected}")
    assert changed_settings(fingerprint("text", {}), fingerprint("text", {}, fixed_decoding=new)) is None
