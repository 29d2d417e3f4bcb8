"""Contract: tables that each commit replaces as a whole (`whole=True`); each version has its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from attrs import evolve

from ..domain.errors import ConfigError, NotSupported, SchemaConflict
from ..domain.ports import KeptStore, Version
from ..domain.table.change import Change
from ..domain.table.schema import Schema
from ..domain.table.spec import Layout, TableSpec
from .store_harness import Row, StoreHarness, TableDriver, bag, mark_of

WHOLE = TableSpec("pipeline.published", Schema(()), layout=Layout.MERGED, whole=True)


class WholeContract(StoreHarness):
    retypes: ClassVar[bool] = True
    """Whether the type of a column may differ from the previous version; if False, that raises `NotSupported`."""

    def replace(self, table: TableDriver, ddl: str, rows: Sequence[Row]) -> Version:
        """Overwrite the table with rows in these columns."""
        return table.commit_change(Change(overwrite=self.frame(rows, Schema.parse(ddl))))

    def columns(self, store: KeptStore, version: Version) -> str:
        """The columns of a version, as DDL."""
        return Schema.of(store.read(WHOLE.name, version)).ddl.replace("`", "")

    def test_each_version_is_read_in_its_own_columns(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        ddls = ["id bigint, name string", "id bigint, name string, n tinyint", "n tinyint, id bigint"]
        contents: list[list[Row]] = [[(1, "a"), (1, "a")], [(1, "b", 2)], [(7, 1), (None, 2)]]
        versions = [self.replace(table, ddl, rows) for ddl, rows in zip(ddls, contents, strict=True)]
        for each in (store, self.reopen()):
            each.ensure(WHOLE)
            assert [self.columns(each, version) for version in versions] == ddls
            read = [self.rows(each.read(WHOLE.name, version)) for version in versions]
            assert [bag(*rows) for rows in read] == [bag(*rows) for rows in contents]

    def test_names_of_hidden_columns_are_the_users(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        ddl = "id bigint, _op string, _sequence bigint, _position int, _arrival int"
        first = self.replace(table, ddl, [(1, "a", 7, 1, 2)])
        self.replace(table, ddl, [(1, "b", 7, 1, 2), (2, "c", None, 1, 2)])
        self.replace(table, "id bigint, _op tinyint", [(1, 2)]) if self.retypes else None
        for each in (store, self.reopen()):
            each.ensure(WHOLE)
            assert self.columns(each, first) == ddl
            assert self.rows(each.read(WHOLE.name, first)) == [(1, "a", 7, 1, 2)]

    def test_a_column_of_another_type(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        first = self.replace(table, "id bigint, n int", [(1, 2)])
        if not self.retypes:
            with pytest.raises(NotSupported, match="column 'n'"):
                self.replace(table, "id bigint, n string", [(1, "two")])
            assert table.rows() == bag((1, 2))
            self.replace(table, "id bigint", [(1,)])
        second = self.replace(table, "id bigint, n string", [(1, "two")])
        assert table.rows_at(second) == bag((1, "two"))
        assert table.rows_at(first) == bag((1, 2))
        assert self.columns(store, first) == "id bigint, n int"

    def test_no_rows_have_columns(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        empty = self.replace(table, "id bigint, at timestamp", [])
        full = self.replace(table, "id bigint, at timestamp", [(1, None)])
        again = self.replace(table, "id bigint, at timestamp", [])
        assert [self.columns(store, version) for version in (empty, again)] == ["id bigint, at timestamp"] * 2
        assert [table.rows_at(version) for version in (empty, full, again)] == [bag(), bag((1, None)), bag()]

    def test_rolling_back_brings_the_columns_back(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        first = self.replace(table, "id bigint, name string", [(1, "a")])
        self.replace(table, "id bigint, n int", [(1, 5)])
        back = table.rollback(first)
        assert table.rows() == bag((1, "a"))
        assert self.columns(store, back) == "id bigint, name string"
        table.rollback(None)
        assert table.rows() == bag()
        self.replace(table, "name string, more string", [("b", "c")])
        assert table.rows() == bag(("b", "c"))

    def test_a_change_of_nothing_leaves_rows_and_columns(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        self.replace(table, "id bigint, name string", [(1, "a")])
        nothing = table.commit()
        assert table.rows() == bag((1, "a"))
        assert self.columns(store, nothing) == "id bigint, name string"

    def test_it_is_only_ever_replaced(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        first = self.replace(table, "id bigint", [(1,)])
        rows = self.frame([(2,)], Schema.parse("id bigint"))
        with pytest.raises(ConfigError):
            store.commit(WHOLE.name, Change(append=rows), mark_of(2))
        assert table.rows() == bag((1,))
        assert table.rows_at(first) == bag((1,))

    def test_no_table_becomes_one_later(self, store: KeptStore) -> None:
        self.replace(self.table(store, WHOLE), "id bigint", [(1,)])
        with pytest.raises(SchemaConflict):
            store.ensure(evolve(WHOLE, whole=False, schema=Schema.parse("id bigint")))

    def test_it_may_be_computed_from_the_version_before(self, store: KeptStore) -> None:
        table = self.table(store, WHOLE)
        self.replace(table, "id bigint, name string", [(1, "a"), (2, "b")])
        table.commit_change(Change(overwrite=table.frame().select("name")))
        assert table.rows() == bag(("a",), ("b",))
