"""Several decoders at a time: the same rows in the same order, and counts, whatever ends first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.records.decoder import Record, RecordDecoder, take_counts
from headwater.adapters.records.shapes.decoders import ShapeDecoders
from headwater.domain.source.changelog.settings import MAXWELL, ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.adapters.records.shapes.decoder import Portion

SPEC = RecordSpec(Schema.parse("id bigint, state string"), MAXWELL, changes=ChangeSpec(["shop.orders"]))
_PORTION = 2_000


def _record(number: int, table: str = "orders") -> Record:
    message = {"database": "shop", "table": table, "type": "insert", "data": {"id": number, "state": "paid"}}
    return Record(json.dumps(message).encode(), number * 1_000, "log")


def _portions(count: int, *, skipped: bool) -> Iterator[Portion]:
    for first in range(0, count * _PORTION, _PORTION):
        tables = ["carts" if skipped and number % 3 == 0 else "orders" for number in range(_PORTION)]
        yield [_record(first + number, table) for number, table in enumerate(tables)]


def test_portions_are_decoded_in_order() -> None:
    decoders, expected = ShapeDecoders(SPEC), RecordDecoder(SPEC)
    found = [row for batch in decoders.decode(_portions(9, skipped=True)) for row in batch.to_pylist()]
    wanted = [row for portion in _portions(9, skipped=True) for row in expected.batch(list(portion)).to_pylist()]
    assert found == wanted
    assert take_counts(decoders.passed_over) == take_counts(expected.passed_over)


def test_counts_of_a_read_that_is_given_up_are_not_those_of_the_next() -> None:
    decoders = ShapeDecoders(SPEC)
    read = decoders.decode(_portions(9, skipped=True))
    next(read)
    counted = dict(decoders.passed_over)
    del read
    assert take_counts(decoders.passed_over) == counted
    assert list(decoders.decode(_portions(3, skipped=False)))
    assert not decoders.passed_over


def test_an_error_of_the_source_ends_the_read() -> None:
    def portions() -> Iterator[Portion]:
        yield from _portions(2, skipped=False)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(ShapeDecoders(SPEC).decode(portions()))
