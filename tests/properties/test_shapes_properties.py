"""Learned shapes change nothing: any records become the rows that the strict decoder makes of them."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.adapters.records.polars_rows import polars_rows
from headwater.adapters.records.shapes import template
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.domain.source.changelog.settings import (
    CANAL,
    CHANGE_FORMATS,
    DEBEZIUM,
    MAXWELL,
    METADATA,
    METADATA_TYPES,
    ChangeSpec,
)
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import column

from .effort import examples
from .nasty_records import SCHEMA, Writer

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

ODDS = [(0.0, 0.0), (0.002, 0.02), (0.02, 0.1), (0.05, 0.3), (0.02, 0.0), (0.005, 0.3), (0.005, 0.1)]
TIMES = [(" ", ""), ("T", ""), ("T", ".123456"), (" ", ".5"), ("T", "Z")]


@st.composite
def specs(draw: st.DrawFn) -> RecordSpec:
    """Specs with any settings that concern decoding."""
    format_ = draw(st.sampled_from(["json", *CHANGE_FORMATS]))
    zone, absent = draw(st.sampled_from(["UTC", "Europe/Berlin", "Asia/Shanghai"])), draw(st.booleans())
    if format_ == "json":
        kind = draw(st.sampled_from([None, "kind"]))
        schema = SCHEMA.plus(column("kind", "string")) if kind or draw(st.booleans()) else SCHEMA
        return RecordSpec(schema, format_, row_kind=kind, time_zone=zone, tells_absent=absent)
    # Shapes do not cover Canal's bytes.
    schema = SCHEMA.without(["bin"]) if format_ == CANAL and draw(st.integers(0, 9)) else SCHEMA
    metadata = {f"meta_{what}": what for what in METADATA[format_]} if draw(st.booleans()) else {}
    columns = (column(name, METADATA_TYPES[what]) for name, what in metadata.items())
    told = draw(st.sampled_from(["", "log", "transactions"]))
    ends = {MAXWELL: ["ordered"], CANAL: ["ordered"], DEBEZIUM: ["ordered", "counted"]}[format_]
    transactions = draw(st.sampled_from(ends)) if told == "transactions" else None
    changes = ChangeSpec(
        draw(st.sampled_from([(), (r"shop\.orders",)])) if transactions != "counted" else (r"shop\.orders",),
        key=draw(st.sampled_from([("id",), ()])),
        metadata=metadata,
        before=draw(st.sampled_from(["required", "optional"])),
        time_unit=draw(st.sampled_from([None, "ms", "us"])) if format_ == DEBEZIUM else None,
        transactions=transactions,
    )
    return RecordSpec(
        schema.plus(*columns),
        format_,
        time_zone=zone,
        changes=changes,
        tells_absent=absent,
        tells_log=told == "log",
        tells_transactions=told == "transactions",
        needs_whole_rows=draw(st.booleans()),
        needs_old_rows=draw(st.booleans()),
        needs_commit_order=bool(metadata) and draw(st.booleans()),
    )


@st.composite
def writers(draw: st.DrawFn, format_: str) -> Writer:
    """Writers of records of a format, with anything from no odd value to many."""
    odd, broken = draw(st.sampled_from(ODDS))
    number = draw(st.sampled_from([0, 1, 1000])) if format_ == DEBEZIUM else 0
    enveloped = draw(st.booleans()) if format_ == DEBEZIUM else False
    random = Random(draw(st.integers(0, 2**32)))
    return Writer(random, format_, odd, broken, draw(st.sampled_from(TIMES)), number, enveloped)


@pytest.mark.parametrize("matcher", ["native", "patterns"])
@settings(max_examples=examples(120))
@given(st.data())
def test_shapes_change_nothing(matcher: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if matcher == "patterns":
            patch.setattr(template, "native_matcher", lambda _holes, _tail: None)
        change_nothing(data)


def change_nothing(data: st.DataObject) -> None:
    spec = data.draw(specs())
    writer, count = data.draw(writers(spec.format)), data.draw(st.sampled_from([30, 100, 300]))
    records = [Record(writer.record(), 10_000 * at, f"orders/0@{at}") for at in range(count)]
    strict, shapes = Counter[str](), Counter[str]()
    expected = told(RecordDecoder(spec, passed_over=strict).batch(records))
    decoder = ShapeDecoder(spec, shapes, least=1, few=1)
    assert told(decoder.batch(records)) == expected
    assert shapes == strict
    assert told(decoder.batch(records)) == expected, "by the shapes of the first time"
    viewed = polars_rows([ShapeDecoder(spec, views=True, least=1, few=1).batch(records)], spec.rows)
    assert viewed.collect().to_native().equals(strict_frame(spec, records))


def strict_frame(spec: RecordSpec, records: list[Record]) -> pl.DataFrame:
    frame: pl.DataFrame = polars_rows([RecordDecoder(spec).batch(records)], spec.rows).collect().to_native()
    return frame


def told(batch: pa.RecordBatch) -> list[str]:
    """The rows of a batch as text, which tells 0.0 from -0.0."""
    return [repr(row) for row in batch.to_pylist()]
