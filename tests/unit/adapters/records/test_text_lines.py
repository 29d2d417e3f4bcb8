"""JSON lines and CSV that are made column by column, against Python's own writing of each value."""

import json
import math
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import lazy, polars_schema
from headwater.adapters.records.json_rows import cell_frames, json_rows
from headwater.adapters.records.text_lines import csv_lines, json_lines
from headwater.domain.table.schema import Schema

SCHEMA = Schema.parse(
    '`a "b"` bigint, at timestamp, local timestamp_ntz, day date, price decimal(20,3), ratio double, small float,'
    " done boolean, name string, raw binary"
)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
VALUES = (
    st.integers(-(2**63), 2**63 - 1),
    TIMES.map(lambda each: each.replace(tzinfo=UTC)),
    TIMES,
    st.dates(),
    st.decimals(Decimal("-1e16"), Decimal("1e16"), places=3),
    st.floats(),
    st.floats(width=32),
    st.booleans(),
    st.text(st.one_of(st.sampled_from('",\\\r\n\t\x00\x7f\u2028'), st.characters(exclude_categories=["Cs"]))),
    st.binary(max_size=5),
)
ROWS = st.lists(st.tuples(*(st.none() | each for each in VALUES)), max_size=8)


def shown(value, schema_type):
    """A value as JSON has it, by the ways of Python's standard library."""
    match value:
        case datetime() | date():
            text = value.replace(tzinfo=None).isoformat() if isinstance(value, datetime) else value.isoformat()
            text = text.rstrip("0") if "." in text else text
            return text + "Z" if schema_type == "timestamp" else text
        case Decimal():
            return format(value, "f")
        case bytes():
            return b64encode(value).decode()
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case float() if value == 0:
            return 0.0
    return value


def field(value):
    """A field of CSV."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace('"', '""') + '"' if not text or any(each in text for each in ',"\r\n') else text


@given(ROWS)
def test_lines_are_those_of_the_standard_library(rows):
    frame, engine = lazy(pl.DataFrame(rows, polars_schema(SCHEMA), orient="row")), PolarsEngine()
    expected = [[shown(value, each.type.name) for value, each in zip(row, SCHEMA.columns, strict=True)] for row in rows]
    assert repr(list(json_rows(frame, SCHEMA, engine))) == repr(expected)
    objects = (json.dumps(dict(zip(SCHEMA.names, row, strict=True)), ensure_ascii=False) + "\n" for row in expected)
    assert "".join(json_lines(SCHEMA.names, cell_frames(frame, SCHEMA, engine))) == "".join(objects)
    lines = [",".join(map(field, row)) + "\n" for row in (SCHEMA.names, *expected)]
    assert "".join(csv_lines(SCHEMA.names, cell_frames(frame, SCHEMA, engine))) == "".join(lines)
