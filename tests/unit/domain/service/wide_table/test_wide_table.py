"""What wide tables refuse, and answers that the other suites do not reach."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater.domain.duration import day_number
from headwater.domain.errors import ConfigError
from headwater.domain.ports import Receipt
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOP = """
[backend]
name = "memory"
[sources.infos]
kind = "files"
path = "in"
schema = "shop_id bigint, name string, city string, at timestamp, kind string"
row_kind = "kind"
event_time = "at"
[sources.stocks]
kind = "files"
path = "in"
schema = "shop bigint, items int, seq bigint, at timestamp"
event_time = "at"
watermark_delay = "1h"
[sources.tags]
kind = "files"
path = "in"
schema = "shops string, tag string, seq bigint"
[sources.log]
kind = "files"
path = "in"
format = "debezium-json"
schema = "shop_id bigint, owner_name string, phone string, at timestamp"
key = ["shop_id"]
before = "optional"

[pipelines.shop]
service = "wide_table"
key = ["shop_id"]
[pipelines.shop.topics.info]
source = "infos"
columns = ["name", "city"]
sequence = ["at"]
owner = true
[pipelines.shop.topics.stock]
source = "stocks"
select = { shop_id = "shop", item_count = "items + 0" }
where = "items is not null"
sequence = ["seq"]
"""
TAGS = """
[pipelines.shop.topics.tag]
source = "tags"
select = { shop_id = "explode(cast(split(shops, ',') as array<bigint>))", tag = "upper(tag)" }
sequence = ["seq"]
"""
LOG = """
[pipelines.shop.topics.people]
source = "log"
columns = ["owner_name", "phone"]
sequence = ["at"]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(SHOP)
        yield trial


def feed(trial: Trial, source: str, *records: dict[str, Any]) -> None:
    """One epoch of a source."""
    trial.feed(source, [json.dumps(record) for record in records])


def info(shop_id: int | None, day: int, kind: str = "+I", **more: Any) -> dict[str, Any]:
    return {"shop_id": shop_id, "at": f"2024-01-{day:02}T12:00:00Z", "kind": kind, **more}


def stock(shop_id: int, items: int | None, seq: int, day: int = 1) -> dict[str, Any]:
    return {"shop": shop_id, "items": items, "seq": seq, "at": f"2024-01-{day:02}T12:00:00Z"}


def rows(trial: Trial, view: str = "shop", *columns: str) -> list[tuple[Any, ...]]:
    """A view's rows in the order of their key."""
    frame = trial.reader.answer(view).frame
    found = frame.select(*columns) if columns else frame
    return sorted(found.collect(backend="polars").rows(), key=str)


def reasons(trial: Trial) -> list[tuple[str, str]]:
    return rows(trial, "shop.dead_letters", "origin", "reason")


def changed(old: str, new: str, text: str = SHOP) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


class TestEpochs:
    def test_what_is_absent_keeps_what_stands_and_null_does_not(self, shop: Trial) -> None:
        feed(shop, "infos", info(1, 3, city="Rome"), info(1, 2, name="late", city="Bonn"), info(1, 4, name=None))
        shop.run()
        feed(shop, "infos", info(1, 1, name="older", city="Oslo"))
        shop.run()
        assert rows(shop) == [(1, None, "Rome", None)]
        feed(shop, "infos", info(2, 3, city="Rome"))
        shop.run()
        feed(shop, "infos", info(2, 2, name="late", city="Bonn"))
        shop.run()
        assert rows(shop) == [(1, None, "Rome", None), (2, "late", "Rome", None)]

    def test_absent_is_null_where_it_is_told_so(self, shop: Trial) -> None:
        shop.deploy(changed("owner = true\n", 'owner = true\nabsent = "null"\n'))
        feed(shop, "infos", info(1, 1, name="A", city="Rome"), info(1, 2, city="Bonn"))
        shop.run()
        assert rows(shop) == [(1, None, "Bonn", None)]

    def test_nulls_keep_where_it_is_told_so(self, shop: Trial) -> None:
        shop.deploy(changed("owner = true\n", 'owner = true\nnulls = "keep"\nabsent = "null"\n'))
        feed(shop, "infos", info(1, 1, name="A", city="Rome"), info(1, 2, name=None, city="Bonn"))
        feed(shop, "infos", info(2, 1, name="B"), info(2, 2, "-D"))
        shop.run()
        assert rows(shop) == [(1, "A", "Bonn", None)]
        feed(shop, "infos", info(2, 2))
        shop.run()
        assert rows(shop) == [(1, "A", "Bonn", None), (2, None, None, None)]

    def test_where_holds_no_delete_back_and_keeps_no_letter(self, shop: Trial) -> None:
        shop.deploy(
            changed(
                'seq bigint, at timestamp"\nevent_time',
                'seq bigint, at timestamp, kind string"\nrow_kind = "kind"\nevent_time',
            )
        )
        feed(shop, "stocks", {**stock(1, 5, 1), "kind": "c"}, {**stock(1, None, 2), "kind": "u"})
        shop.run()
        assert rows(shop) == [(1, None, None, 5)]
        feed(shop, "stocks", {**stock(1, None, 3), "kind": "d"})
        shop.run()
        assert rows(shop) == [(1, None, None, None)]
        assert reasons(shop) == []

    def test_rows_of_a_table_function_and_letters_beside_them(self, shop: Trial) -> None:
        shop.deploy(SHOP + TAGS)
        feed(shop, "tags", {"shops": "1,2,1", "tag": "new", "seq": 1}, {"shops": "x,2", "tag": "old", "seq": 2})
        shop.feed("tags", ["no json"])
        shop.run()
        assert rows(shop) == [(1, None, None, None, "NEW"), (2, None, None, None, "OLD")]
        assert next(reason for _, reason in reasons(shop)) == "key column shop_id is null"
        assert len(reasons(shop)) == 2

    def test_a_value_that_was_not_sent_keeps_what_stands(self, shop: Trial) -> None:
        shop.deploy(SHOP + LOG)
        insert = {"op": "c", "after": {"shop_id": 1, "owner_name": "Ann", "phone": "1", "at": "2024-01-01 00:00:00"}}
        update = {
            "shop_id": 1,
            "owner_name": "Eve",
            "phone": "__debezium_unavailable_value",
            "at": "2024-01-02 00:00:00",
        }
        feed(shop, "log", {**insert, "source": {}}, {"op": "u", "after": update, "source": {}})
        shop.run()
        assert rows(shop, "shop", "owner_name", "phone") == [("Eve", "1")]
        moved = {**update, "shop_id": 2, "phone": "2", "at": "2024-01-03 00:00:00"}
        feed(shop, "log", {"op": "u", "before": {**update, "phone": "1"}, "after": moved, "source": {}})
        shop.run()
        feed(shop, "log", {"op": "u", "after": {**update, "phone": "late"}, "source": {}})
        shop.run()
        assert rows(shop, "shop", "shop_id", "owner_name", "phone") == [(1, None, None), (2, "Eve", "2")]

    def test_letters_are_read_again_by_their_own_topic(self, shop: Trial) -> None:
        shop.feed("infos", ['{"shop_id": 1, "name": "A", "city": "Rome", "at": "yesterday", "kind": "+I"}'])
        shop.feed("stocks", ['{"shop": 1, "items": "many", "seq": 1}'])
        shop.run()
        assert [origin.partition(":")[0] for origin, _ in reasons(shop)] == ["info", "stock"]
        shop.set("sources.stocks.schema", '"shop bigint, items string, seq bigint, at timestamp"')
        shop.set("pipelines.shop.topics.stock.select", '{ shop_id = "shop", item_count = "length(items)" }')
        both = "column item_count, type of column items in the source of topic stock int -> string;"
        with pytest.raises(ConfigError, match=f"built with other expression or type of {both}"):
            shop.open().replay("shop")
        shop.set("sources.stocks.schema", '"shop bigint, items int, seq bigint, at timestamp"')
        shop.set("pipelines.shop.topics.stock.select", '{ shop_id = "shop", item_count = "items + 0" }')
        replayed = shop.open().replay("shop")
        assert (replayed.read, replayed.rows, replayed.left) == (2, 0, 2)

    def test_letters_that_the_source_of_their_topic_cannot_read_stay_and_the_others_are_read(self, shop: Trial) -> None:
        schema = "shop_id bigint, name string, city string, at timestamp, kind string, more"
        shop.set("sources.infos.schema", f'"{schema} int"')
        feed(shop, "infos", info(1, 1, name="A") | {"more": "many"})
        feed(shop, "stocks", stock(1, 1, 1) | {"items": "many"})
        shop.run()
        assert [origin.partition(":")[0] for origin, _ in reasons(shop)] == ["info", "stock"]
        shop.set("sources.infos.schema", f'"{schema} string"')
        headwater = shop.open()
        (runner,) = headwater.start()
        runner.source.members["stock"].reread_formats = ()  # as if its format were Parquet now
        replayed = headwater.replay("shop")
        assert (replayed.read, replayed.rows, replayed.left, replayed.unreadable) == (1, 1, 1, 1)
        assert rows(shop, "shop", "name", "item_count") == [("A", None)]

    def test_the_slowest_topic_with_an_event_time_is_the_watermark(self, shop: Trial) -> None:
        shop.deploy(SHOP + TAGS)
        feed(shop, "infos", info(1, 5))
        shop.run()
        assert shop.publications("shop")[0].watermark is None
        feed(shop, "stocks", stock(1, 1, 1, day=3))
        shop.run()
        assert shop.publications("shop")[0].watermark == datetime(2024, 1, 3, 11, tzinfo=UTC)
        feed(shop, "stocks", stock(1, 1, 1, day=9))
        shop.run()
        assert shop.publications("shop")[0].watermark == datetime(2024, 1, 5, 12, tzinfo=UTC)

    def test_completeness_tells_of_rows_that_are_gone(self, shop: Trial) -> None:
        feed(shop, "infos", info(1, 1, name="A"), info(1, 2, "-D"))
        feed(shop, "stocks", stock(1, 4, 7), stock(2, 4, 7))
        shop.run()
        assert rows(shop) == [(2, None, None, 4)]
        at = datetime(2024, 1, 2, 12, tzinfo=UTC)
        told = [
            (1, False, True, True, at, 0, True, False, 7, 0),
            (2, True, False, False, None, None, True, False, 7, 0),
        ]
        assert rows(shop, "shop.completeness") == told


class TestHorizon:
    @pytest.fixture
    def forgetful(self, shop: Trial) -> Trial:
        shop.deploy(
            changed(
                'key = ["shop_id"]\n[pipelines.shop.topics.info]',
                'key = ["shop_id"]\ntombstones = "2d"\n[pipelines.shop.topics.info]',
            )
        )
        return shop

    @staticmethod
    def pass_day(trial: Trial, day: int, *more: dict[str, Any]) -> None:
        """Bring the watermark to noon of a day, by an epoch that brings more."""
        feed(trial, "infos", *more, info(99, day))
        feed(trial, "stocks", stock(99, 1, day, day=day + 1))
        trial.run()

    def test_a_row_is_forgotten_when_its_delete_is_old(self, forgetful: Trial) -> None:
        feed(forgetful, "infos", info(1, 1, name="A"), info(1, 2, "-D"), info(2, 2, "-D"), info(3, 2, "-D"))
        feed(forgetful, "stocks", stock(1, 7, 1))
        forgetful.run()
        feed(forgetful, "infos", info(2, 3, name="back"), info(3, 3, "-D"))
        self.pass_day(forgetful, 4)
        known = [(1, False), (2, True), (3, False), (99, True)]
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == known
        self.pass_day(forgetful, 5)
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == [(2, True), (3, False), (99, True)]
        self.pass_day(forgetful, 6, info(3, 1, name="older"))
        known = [(2, True), (3, False), (99, True)]
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == known
        self.pass_day(forgetful, 7)
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == [(2, True), (99, True)]
        assert rows(forgetful, "shop.tombstones") == []
        feed(forgetful, "infos", info(1, 1, name="anew"))
        forgetful.run()
        assert rows(forgetful, "shop", "shop_id", "name", "item_count")[0] == (1, "anew", None)

    @pytest.mark.parametrize("epochs", [1, 2])
    def test_the_delete_of_a_row_that_is_old_is_not(self, forgetful: Trial, epochs: int) -> None:
        """A changelog gives a delete the time of the row's last update."""
        feed(forgetful, "infos", info(1, 1, name="A"), info(99, 5), *([info(1, 1, "-D")] if epochs == 1 else []))
        feed(forgetful, "stocks", stock(1, 7, 1, day=6))
        forgetful.run()
        if epochs == 2:
            feed(forgetful, "infos", info(1, 1, "-D"))
            forgetful.run()
        self.pass_day(forgetful, 7)
        feed(forgetful, "infos", info(1, 7, name="back"))
        forgetful.run()
        assert rows(forgetful, "shop", "shop_id", "name", "item_count")[0] == (1, "back", 7)
        feed(forgetful, "infos", info(1, 7, "-D"))
        forgetful.run()
        self.pass_day(forgetful, 9)
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == [(1, False), (99, True)]
        self.pass_day(forgetful, 10)
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == [(99, True)]

    def test_a_change_of_the_key_deletes_at_the_time_of_the_new_image(self, forgetful: Trial) -> None:
        def person(shop_id: int, day: int) -> dict[str, Any]:
            return {"shop_id": shop_id, "owner_name": "Ann", "phone": None, "at": f"2024-01-{day:02}T12:00:00Z"}

        owned = changed('before = "optional"', 'event_time = "at"\nwatermark_delay = "10d"', SHOP + LOG)
        owned = changed("owner = true\n", "", owned).replace("people]\n", "people]\nowner = true\n")
        forgetful.deploy(
            changed('key = ["shop_id"]\n[pipelines', 'key = ["shop_id"]\ntombstones = "2d"\n[pipelines', owned)
        )
        feed(forgetful, "log", {"op": "c", "before": None, "after": person(1, 1)})
        feed(forgetful, "log", {"op": "u", "before": person(1, 1), "after": person(2, 12)})
        feed(forgetful, "stocks", stock(1, 7, 1, day=30))
        feed(forgetful, "infos", info(1, 30, name="A"))
        forgetful.run()
        feed(forgetful, "log", {"op": "c", "before": None, "after": person(3, 24)})
        forgetful.run()
        known = [(1, False), (2, True), (3, True)]
        assert rows(forgetful, "shop.completeness", "shop_id", "present") == known
        assert [day for *_, day in rows(forgetful, "shop.tombstones")] == [day_number(date(2024, 1, 12))]

    def test_it_goes_by_the_owners_time(self, forgetful: Trial) -> None:
        forgetful.unset("pipelines.shop.topics.info.owner")
        with pytest.raises(ConfigError, match="tombstones goes by the owner's event time"):
            forgetful.open()


def test_a_receipt_of_before_the_reading_was_kept_fits(shop: Trial) -> None:
    """It has the digest of a fingerprint that was only the hashes of the key, the topics and the columns."""
    before = (
        '{"":"f6ae0ab2","info":"ee5e7a3a","info.city":"e7b06bd6","info.name":"e468b634","stock":"6ee1c078",'
        '"stock.item_count":"10020575"}'
    )
    feed(shop, "stocks", stock(1, 5, 1))
    shop.run()
    (published,) = shop.publications("shop")
    receipt = Receipt.of(evolve(published, fingerprint=before, settings=None))
    assert receipt.fits(published)
    assert not receipt.fits(evolve(published, fingerprint=published.fingerprint.replace("10020575", "10020576")))


class TestEdits:
    def test_topics_and_columns_come_to_rows_that_are_there(self, shop: Trial) -> None:
        only_name = changed('columns = ["name", "city"]', 'columns = ["name"]')
        shop.deploy(only_name)
        shop.set("pipelines.shop.materialize", '["rows"]')
        feed(shop, "infos", info(1, 1, name="A", city="Rome"), info(2, 1, name="B", city="Bonn"))
        shop.run()
        shop.deploy(SHOP + TAGS)
        shop.set("pipelines.shop.materialize", '["rows"]')
        feed(shop, "infos", info(1, 2, city="Kiel"))
        feed(shop, "tags", {"shops": "2", "tag": "new", "seq": 1})
        shop.run()
        assert rows(shop) == [(1, "A", "Kiel", None, None), (2, "B", None, None, "NEW")]
        spec, stored = shop.stored("shop.rows")
        assert set(spec.schema.names) == {"shop_id", "name", "city", "item_count", "tag"}
        columns = stored.select("shop_id", "name", "city", "tag").collect(backend="polars").rows()
        assert sorted(columns) == [(1, "A", "Kiel", None), (2, "B", None, "NEW")]

    @pytest.mark.parametrize(
        ("old", "new", "what"),
        [
            ('columns = ["name", "city"]', 'columns = ["name"]', r"column city of topic info \(it is gone\)"),
            ("items + 0", "items + 1", "expression or type of column item_count"),
            ("items is not null", "items > 0", "sequence, key, where, owner, nulls or absent of topic stock"),
            ("owner = true\n", "", "sequence, key, where, owner, nulls or absent of topic info"),
            ('sequence = ["seq"]', 'sequence = ["at"]', "sequence, key, where, owner, nulls or absent of topic stock"),
            ('shop_id = "shop"', 'shop_id = "seq"', "sequence, key, where, owner, nulls or absent of topic stock"),
            ("[pipelines.shop.topics.stock]", "[pipelines.shop.topics.store]", r"topic stock \(it is gone\)"),
        ],
    )  # fmt: skip
    def test_what_rows_depend_on_stays(self, shop: Trial, old: str, new: str, what: str) -> None:
        feed(shop, "infos", info(1, 1, name="A", city="Rome"))
        shop.run()
        shop.deploy(changed(old, new))
        with pytest.raises(ConfigError, match=f"built with other .*{what}"):
            shop.run()


@pytest.mark.parametrize(
    ("old", "new", "place", "told"),
    [
        ('source = "infos"', 'source = "info"', "topics.info.source", "'info' is unknown; allowed: infos, stocks, tags, log"),
        ('columns = ["name", "city"]', 'columns = ["nam"]', "topics.info.columns", "no such column: 'nam'"),
        ('columns = ["name", "city"]', "columns = []", "topics.info", "gives no column besides the key"),
        ('sequence = ["seq"]', "sequence = []", "topics.stock.sequence", "the list is empty"),
        ('sequence = ["seq"]', 'sequence = ["sq"]', "topics.stock.sequence", "no column 'sq'; there are: shop, items"),
        ('sequence = ["seq"]', 'sequence = ["seq / 2"]', "topics.stock.sequence", "sequence 'sequence_1' is a double, which"),
        ('"items + 0"', '"max(items)"', "topics.stock.select.item_count", "an aggregate, max"),
        ('"items + 0"', '"rank() over (order by seq)"', "topics.stock.select.item_count", "a window function"),
        ('"items + 0"', '"items group by shop"', "topics.stock.select.item_count", "has a GROUP BY"),
        ('"items + 0"', '"nothing_like_it(items)"', "topics.stock.select.item_count", "cast it: CAST"),
        ("items is not null", "items", "topics.stock.where", "is a int; write a condition"),
        ('item_count = "items + 0"', 'name = "items"', "topics.stock", "column 'name' is given by the topics 'info' and"),
        ('shop_id = "shop", ', "", "topics.stock", "no key column 'shop_id': its source 'stocks' must have it"),
        ('shop_id = "shop"', 'shop_id = "items"', "topics.stock", "is int in topic 'stock' and bigint in topic 'info'"),
        (", item_count = ", ', Shop = "seq", shop = "seq", item_count = ', "topics.stock", "column 'shop' is given by topic 'stock' twice"),
        ("topics.stock]", "topics.a__b]", "topics.a__b", "write letters, digits and single underscores"),
        ('sequence = ["seq"]', 'sequence = ["seq"]\nowner = true', "topics.stock", "topics info and stock both are the"),
        ('sequence = ["seq"]', 'sequence = ["seq"]\nabsent = "later"', "topics.stock.absent", "allowed: keep, null"),
        ('service = "wide_table"', 'service = "wide_table"\nsource = "infos"', "source", "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(shop: Trial, old: str, new: str, place: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shop.deploy(changed(old, new))
        shop.open()
    assert f": pipelines.shop.{place}: " in str(caught.value)
    assert told in str(caught.value)


def test_a_topic_is_overridden_by_the_environment(shop: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_PIPELINES__SHOP__TOPICS__STOCK__WHERE", "items > 5")
    feed(shop, "stocks", stock(1, 5, 1), stock(2, 6, 1))
    shop.run()
    assert rows(shop, "shop", "shop_id") == [(2,)]
