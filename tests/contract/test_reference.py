"""The reference of changes and reads, on either engine: what the stores that use it are held to, without a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from headwater.domain.table.apply import apply_change, select_matching, touched_keys
from headwater.domain.table.change import POSITION, Between, Change, Matching
from headwater.domain.table.merge import KeepFirst, Latest, Sum
from headwater.domain.table.schema import Schema, column
from headwater.testing.frames import PolarsFrames, SparkFrames
from headwater.testing.store_harness import bag, spec_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    import narwhals as nw

SPEC = spec_of(
    "id bigint, first int, total decimal(18,2), seq int, name string",
    ["id"],
    rules={"first": KeepFirst(), "total": Sum()},
    groups=[Latest(["seq"], ["name"])],
)
STORED = [(1, 1, Decimal("1.50"), 5, "five"), (2, 2, None, None, None), (3, 3, Decimal(0), 1, "x")]


class Reference(ABC):
    @abstractmethod
    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of the engine."""

    def after(self, **parts: nw.LazyFrame[Any]) -> Counter[tuple[Any, ...]]:
        rows = apply_change(self.frame(STORED, SPEC.schema), Change(**parts), SPEC)
        assert rows.collect_schema().names() == list(SPEC.schema.names)
        return bag(*rows.collect(backend="polars").rows())

    def test_a_change_does_all_of_its_parts(self) -> None:
        merge = [(1, 9, Decimal("0.50"), 4, "four", 1), (1, 8, None, 6, "six", 0), (4, 4, Decimal(1), None, "x", 0)]
        keys = self.frame([(3,), (3,), (9,)], SPEC.schema.select(["id"]))
        found = self.after(
            append=self.frame([(5, None, None, None, "kept")], SPEC.schema),
            merge=self.frame(merge, SPEC.schema.plus(column(POSITION, "bigint"))),
            delete=keys,
        )
        assert found == bag(
            (1, 1, Decimal("2.00"), 6, "six"), STORED[1], (4, 4, Decimal(1), None, None), (5, None, None, None, "kept")
        )

    def test_an_overwrite_leaves_nothing_and_types_are_the_tables(self) -> None:
        other = Schema.parse("name string, seq tinyint, total decimal(10,1), id int, first int, more int")
        rows = self.frame([("a", 7, Decimal("1.5"), 1, None, 0)], other)
        assert self.after(overwrite=rows) == bag((1, None, Decimal("1.50"), 7, "a"))

    def test_a_change_of_nothing_changes_nothing(self) -> None:
        assert self.after() == bag(*STORED)
        assert touched_keys(Change(append=self.frame([], SPEC.schema)), SPEC) is None

    def test_merged_and_deleted_keys_are_touched(self) -> None:
        keys = SPEC.schema.select(["id"])
        found = touched_keys(Change(merge=self.frame(STORED[:1], SPEC.schema), delete=self.frame([(7,)], keys)), SPEC)
        assert found is not None
        assert bag(*found.collect(backend="polars").rows()) == bag((1,), (7,))

    def test_reads_match_literals_of_any_type_and_keys(self) -> None:
        schema = Schema.parse("id bigint, at timestamp, on date, price decimal(38,18), word string")
        noon = datetime(2024, 3, 1, 12, tzinfo=UTC)
        tiny = Decimal("0.000000000000000001")
        early, late = (1, noon, date(2024, 3, 1), tiny, "it's"), (2, None, date(2024, 3, 2), None, "b")
        rows = self.frame([early, late], schema)
        cases: list[tuple[Matching, list[tuple[Any, ...]]]] = [
            (Matching(), [early, late]),
            (Matching(within={"at": Between(noon, noon)}), [early]),
            (Matching(within={"on": (date(2024, 3, 2), None), "word": Between("a", "c")}), [late]),
            (Matching(within={"price": (tiny,)}), [early]),
            (Matching(within={"id": ()}), []),
            (Matching(self.frame([(2,), (2,)], Schema.parse("id int"))), [late]),
            (Matching(self.frame([(None,)], schema.select(["at"]))), []),
        ]
        for matching, expected in cases:
            assert bag(*select_matching(rows, matching, schema).collect(backend="polars").rows()) == bag(*expected)


class TestOnPolars(PolarsFrames, Reference):
    pass


@pytest.mark.delta
@pytest.mark.contract
class TestOnSpark(SparkFrames, Reference):
    pass
