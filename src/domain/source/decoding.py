"""The settings of a source that decide which values a record has, for the fingerprints of services.

After an edit, stored rows stay as they were read. The edit needs a rebuild only where a later row finds or takes back a
stored one by values that the setting decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..table.fingerprint import CHANGES
from ..table.schema import TIMES
from .changelog.settings import CHANGE_FORMATS, DEBEZIUM
from .csv_format import CsvFormat
from .record_spec import RecordSpec


def decoding_of(records: RecordSpec | None) -> dict[str, str]:
    """All settings by which records are read, by their configuration keys; empty if there are no records."""
    if records is None:
        return {}
    tables = {"tables": _list(records.changes.tables)} if records.format in CHANGE_FORMATS else _kind(records)
    csv = _csv(records.csv) if records.format == "csv" else {}
    return {**key_decoding(records, records.schema.names), **csv, **tables}


def key_decoding(records: RecordSpec | None, columns: Iterable[str]) -> dict[str, str]:
    """The settings that decide the values of columns by which later rows are matched with stored ones.

    Args:
        records: how records are read; None if there are none.
        columns: their names; case does not matter.
    """
    if records is None:
        return {}
    named, found = {each.lower() for each in columns}, {}
    used = [each for each in records.schema.columns if each.name.lower() in named]
    types = [each.type for each in used if each.name not in records.changes.metadata]
    if any(leaf.name in TIMES for type_ in types for _, leaf in type_.leaves()):
        found["time_zone"] = records.time_zone
        if records.format == DEBEZIUM:
            found["time_unit"] = records.changes.time_unit or "by size"
        elif records.changes.time_unit:  # without it no number has been stored as a time
            found["time_unit"] = records.changes.time_unit
    if records.format in CHANGE_FORMATS:
        metadata = records.changes.metadata
        found["metadata"] = _list(f"{each.name} = {metadata[each.name]}" for each in used if each.name in metadata)
    return found


def subtracted_decoding(records: RecordSpec | None, columns: Iterable[str]) -> dict[str, str]:
    """The settings that decide the values of columns that later rows take back, and whether rows can do so at all.

    Args:
        records: how records are read; None if there are none.
        columns: their names; case does not matter.
    """
    if records is None:
        return {}
    if records.format in CHANGE_FORMATS:
        return {**key_decoding(records, columns), CHANGES: "yes"}
    if records.row_kind is None:
        return {**_kind(records), CHANGES: "no"}
    csv = _csv(records.csv) if records.format == "csv" else {}
    return {**key_decoding(records, columns), **csv, **_kind(records), CHANGES: "yes"}


def _kind(records: RecordSpec) -> dict[str, str]:
    return {"row_kind": records.row_kind or "none"}


def _csv(csv: CsvFormat) -> dict[str, str]:
    nulls = _list(map(repr, csv.null_value))
    return {"quote": csv.quote, "escape": csv.escape or "none", "header": str(csv.header).lower(), "null_value": nulls}


def _list(texts: Iterable[str]) -> str:
    """Texts whose order means nothing."""
    return ", ".join(sorted(texts)) or "none"
