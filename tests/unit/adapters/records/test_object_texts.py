"""The raw text of rows of Parquet files, against the encoder of whole rows."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.records.decoder import to_json
from headwater.adapters.records.object_texts import object_texts
from headwater.domain.source.conversion import show_value

NAIVE = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
COLUMNS = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u": (pa.uint8(), st.integers(0, 255)),
    "b": (pa.bool_(), st.booleans()),
    "d": (pa.float64(), st.floats()),
    "f": (pa.float32(), st.floats(width=32)),
    's "odd"': (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    "l": (pa.large_string(), st.text('ab\n"\\\x00é')),
    "n": (pa.timestamp("us"), NAIVE),
    "z": (pa.timestamp("us", "UTC"), NAIVE.map(lambda each: each.replace(tzinfo=UTC))),
    "day": (pa.date32(), st.dates(date(1, 1, 1))),
    "m": (pa.decimal128(20, 3), st.decimals(Decimal("-1e16"), Decimal("1e16"), places=3)),
    "raw": (pa.binary(), st.binary(max_size=4)),
    "c": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"])),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | each for name, (_, each) in COLUMNS.items()}), max_size=6)


@given(ROWS)
def test_each_row_is_written_as_the_encoder_writes_it(rows):
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    assert object_texts(batch).to_pylist() == [to_json(show_value(row)) for row in batch.to_pylist()]
