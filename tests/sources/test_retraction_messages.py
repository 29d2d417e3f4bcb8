"""Binlog messages in a retraction: literal ones of Maxwell, Debezium and Canal, decoded and counted on memory."""

from __future__ import annotations

import json
from contextlib import ExitStack
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater.adapters.records.shapes import places
from headwater.domain.errors import ConfigError
from headwater.domain.source.changelog import log
from headwater.domain.table.row_kind import PAIRED_ROW_KINDS
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEPLOYMENT = """
[backend]
name = "memory"

[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop"]
format = "{format}"
schema = "id bigint, state string, amount decimal(9,2), mtime timestamp{more}"
{keys}

[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = {{ orders = "count(*)", amount = "sum(amount)" }}
updated_at = "mtime"
{pipeline}
"""


PLACE = ", file string, pos bigint, line bigint"
PLACED = 'metadata = { file = "log_file", pos = "log_position", line = "row" }'
IDENTITY = 'identity = ["file", "pos", "line"]'


class Shop:
    """A deployment that is fed messages, an epoch each time."""

    def __init__(self, trial: Trial, format_: str, *, more: str = "", keys: str = "", pipeline: str = "") -> None:
        self._trial = trial
        trial.deploy(DEPLOYMENT.format(format=format_, more=more, keys=keys, pipeline=pipeline))

    def feed(self, *messages: str) -> None:
        self._trial.feed("orders", messages)

    def read(self, *messages: str) -> None:
        self._trial.feed("orders", messages)
        self._trial.run()

    def shows(self, view: str = "totals") -> list[tuple[Any, ...]]:
        rows = nw.from_native(self._trial.reader.view(f"states.{view}")).lazy().collect("polars").rows()
        return sorted(rows, key=str)

    def dead(self) -> list[str]:
        return sorted(row[1] for row in self.shows("dead_letters"))


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        yield Trial(tmp_path, "memory", exits)


def money(text: str) -> Decimal:
    return Decimal(text)


class TestCanal:
    def test_the_old_values_of_a_row_belong_to_it_alone(self, trial: Trial) -> None:
        """The second row changed its amount alone: the first one's old state must not stand in for its own."""
        shop = Shop(trial, "canal-json")
        shop.read(
            '{"type":"INSERT","database":"shop","table":"orders","isDdl":false,"old":null,"data":['
            '{"id":"1","state":"new","amount":"1.00","mtime":"2024-03-01 09:00:00"},'
            '{"id":"2","state":"paid","amount":"2.00","mtime":"2024-03-01 09:00:00"},'
            '{"id":"3","state":"paid","amount":"4.00","mtime":"2024-03-01 09:00:00"}]}',
            '{"type":"UPDATE","database":"shop","table":"orders","isDdl":false,"data":['
            '{"id":"1","state":"held","amount":"1.00","mtime":"2024-03-01 10:00:00"},'
            '{"id":"2","state":"paid","amount":"2.50","mtime":"2024-03-01 10:00:00"},'
            '{"id":"3","state":"sent","amount":"8.00","mtime":"2024-03-01 10:00:00"}],'
            '"old":[{"state":"new"},{"amount":"2.00"},{"state":"paid","amount":"4.00"}]}',
        )
        assert shop.shows() == [("held", 1, money("1.00")), ("paid", 1, money("2.50")), ("sent", 1, money("8.00"))]

    def test_a_message_that_cannot_be_decoded_in_one_row_counts_in_none(self, trial: Trial) -> None:
        shop = Shop(trial, "canal-json")
        shop.read(
            '{"type":"INSERT","isDdl":false,"data":['
            '{"id":"1","state":"new","amount":"1.00","mtime":"2024-03-01 09:00:00"},'
            '{"id":"2","state":"new","amount":"a lot","mtime":"2024-03-01 09:00:00"}]}'
        )
        assert shop.shows() == []
        assert shop.dead() == ["column 'amount': decimal(9,2) wanted, not 'a lot'"]

    def test_messages_have_no_position_so_each_counts_with_one_warning(
        self, trial: Trial, caplog: pytest.LogCaptureFixture
    ) -> None:
        shop = Shop(trial, "canal-json")
        inserted = (
            '{"type":"INSERT","isDdl":false,"gtid":"3e11fa47:9","es":1709280000000,"data":['
            '{"id":"1","state":"new","amount":"1.00","mtime":"2024-03-01 09:00:00"}]}'
        )
        shop.read(inserted)
        shop.feed(inserted)
        shop.read(inserted)
        assert shop.shows() == [("new", 3, money("3.00"))]
        assert _told_once_a_run(caplog) == 2

    def test_rows_of_a_message_have_places_of_their_own(self, trial: Trial) -> None:
        shop = Shop(
            trial,
            "canal-json",
            more=", gtid string, line bigint",
            keys='metadata = { gtid = "transaction", line = "row" }',
            pipeline='identity = ["gtid", "line"]',
        )
        inserted = (
            '{"type":"INSERT","isDdl":false,"gtid":"3e11fa47:9","data":['
            '{"id":"1","state":"new","amount":"1.00","mtime":"2024-03-01 09:00:00"},'
            '{"id":"2","state":"new","amount":"2.00","mtime":"2024-03-01 09:00:00"}]}'
        )
        shop.read(inserted, inserted)
        shop.read(inserted, inserted.replace(":9", ":10"))
        assert shop.shows() == [("new", 4, money("6.00"))]


def _told_once_a_run(caplog: pytest.LogCaptureFixture) -> int:
    """How often it was told that messages have no position."""
    return sum("there are messages without a position in their log" in each.message for each in caplog.records)


def maxwell(kind: str, data: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> str:
    message = {"database": "shop", "table": "orders", "type": kind, "ts": 1709280000, "xid": 7, "data": data}
    return json.dumps(message | ({} if old is None else {"old": old}) | more)


def in_log(base: str, at: int, seconds: int, **more: Any) -> str:
    """An insert at a position in the first file of a log, committed some seconds after 2024-03-01."""
    row = order(1, "new", "1.00", "01 09:00:00")
    place = {"position": f"{base}.000001:{at}", "ts": 1709251200 + seconds}
    return maxwell("insert", row, commit=True, **place, **more)


def order(id_: int, state: str | None, amount: str | None, at: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "state": state, "amount": amount, "mtime": f"2024-03-{at}"} | more


class TestMaxwell:
    def test_a_bootstrap_counts_its_rows_and_neither_its_course_nor_a_table(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json", more=", seen timestamp", keys='metadata = { seen = "commit_time" }')
        shop.read(
            '{"type":"table-create","database":"shop","table":"orders","def":{"columns":[]},"ts":1709280000123,"sql":"x"}',
            maxwell("bootstrap-start", {}),
            maxwell("bootstrap-insert", order(1, "new", "1.00", "01 09:00:00")),
            maxwell("bootstrap-insert", order(2, "new", "2.00", "01 09:00:00")),
            maxwell("bootstrap-complete", {}),
            maxwell("update", order(1, "paid", "1.00", "01 10:00:00"), {"state": "new"}, commit=True),
        )
        assert shop.shows() == [("new", 1, money("2.00")), ("paid", 1, money("1.00"))]
        assert shop.dead() == []

    def test_names_inside_a_value_are_no_columns(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json", more=", note string")
        first = order(1, "new", "1.00", "01 09:00:00", note={"state": "paid", "old": {"amount": 9}})
        shop.read(
            maxwell("insert", first),
            maxwell("update", first | {"note": {"state": "sent"}}, {"note": {"state": "paid", "old": {"amount": 9}}}),
        )
        assert shop.shows() == [("new", 1, money("1.00"))]

    def test_what_was_null_is_told_from_what_did_not_change(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json")
        shop.read(
            maxwell("insert", order(1, None, None, "01 09:00:00")),
            maxwell("insert", order(2, "new", "2.00", "01 09:00:00")),
            maxwell("update", order(1, "new", "1.00", "01 10:00:00"), {"state": None, "amount": None}),
            maxwell("update", order(2, "new", None, "01 10:00:00"), {"amount": "2.00"}),
        )
        assert shop.shows() == [("new", 2, money("1.00"))]

    def test_an_update_across_days_moves_what_counts_on_the_later_day_alone(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json", keys='time_zone = "Asia/Shanghai"', pipeline='time_zone = "Asia/Shanghai"')
        shop.read(
            maxwell("insert", order(1, "new", "1.00", "01 23:59:59")),
            maxwell(
                "update", order(1, "new", "5.00", "03 00:00:00"), {"amount": "1.00", "mtime": "2024-03-01 23:59:59"}
            ),
        )
        days = [(row[0].day, *row[1:]) for row in shop.shows("deltas")]
        assert days == [(1, "new", 1, money("1.00")), (3, "new", 0, money("4.00"))]
        assert [(row[0].day, row[3]) for row in shop.shows("by_day")] == [(1, money("1.00")), (3, money("5.00"))]

    def test_a_delete_may_be_filed_by_the_time_of_its_message(self, trial: Trial) -> None:
        keys = 'metadata = { seen = "commit_time" }'
        shop = Shop(trial, "maxwell-json", more=", seen timestamp", keys=keys, pipeline='deleted_at = "seen"')
        of_march_5th = 1709625600
        shop.read(
            maxwell("insert", order(1, "new", "1.00", "01 09:00:00")),
            maxwell("delete", order(1, "new", "1.00", "01 09:00:00"), ts=of_march_5th),
        )
        assert [(row[0].day, row[2]) for row in shop.shows("deltas")] == [(1, 1), (5, -1)]

    def test_a_table_without_a_key_may_hold_the_same_row_twice(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json")
        same = order(1, "new", "1.00", "01 09:00:00")
        shop.read(maxwell("insert", same), maxwell("insert", same), maxwell("delete", same))
        assert shop.shows() == [("new", 1, money("1.00"))]

    def test_rows_of_one_statement_share_a_position_and_differ_by_their_number(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json", more=PLACE, keys=PLACED, pipeline=IDENTITY)
        told = [
            maxwell("insert", order(at, "new", "1.00", "01 09:00:00"), position="binlog.000009:4", xoffset=at)
            for at in range(3)
        ]
        shop.read(*told[:2])
        shop.read(*told)
        shop.read(maxwell("delete", order(0, "new", "1.00", "01 09:00:00"), position="binlog.000010:4", xoffset=0))
        assert shop.shows() == [("new", 2, money("2.00"))]

    def test_a_position_is_enough_for_repeats_to_be_told(self, trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
        shop = Shop(trial, "maxwell-json")
        one, two = order(1, "new", "1.00", "01 09:00:00"), order(1, "paid", "1.00", "01 09:00:00")
        told = [
            maxwell("insert", one, position="binlog.000009:4", xoffset=0),
            maxwell("update", two, {"state": "new"}, position="binlog.000009:4", commit=True),
            maxwell("delete", two, position="binlog.000009:8", commit=True),
        ]
        shop.read(told[0], *told[:2])
        shop.read(*told[1:], *told[1:])
        assert shop.shows() == []
        assert _told_once_a_run(caplog) == 0

    def test_servers_are_told_apart_by_their_gtids(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json")
        one = order(1, "new", "1.00", "01 09:00:00")
        shop.read(maxwell("insert", one, position="binlog.000900:4", commit=True, gtid="3e11fa47-01:900"))
        shop.read(maxwell("insert", one, position="binlog.000001:4", commit=True, gtid="99aa00bb-02:1"))
        assert shop.shows() == [("new", 2, money("2.00"))]

    @pytest.mark.parametrize("other", ["bin #0", "bin #1", "bin 0"])
    def test_a_log_may_be_called_as_the_new_log_of_another_one(self, trial: Trial, other: str) -> None:
        shop = Shop(trial, "maxwell-json", pipeline='log_reset = "accept"')
        shop.read(in_log(other, 100, 1000), in_log("bin", 100, 1000), in_log("bin", 5, 10_000))
        shop.read(in_log(other, 3, 9700), in_log("bin", 5, 10_000))
        assert shop.shows() == [("new", 4, money("4.00"))]

    def test_a_change_of_a_log_with_such_a_name_is_found_again_after_a_replay(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json")
        broken = in_log("bin", 100, 900)
        shop.read(in_log("bin #0", 100, 1000), broken.replace("1.00", "much"))
        shop.read(broken)
        shop.read(broken, in_log("bin #0", 100, 1000))
        assert shop.shows() == [("new", 2, money("2.00"))]

    def test_logs_with_spaces_in_their_names_are_kept_apart(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json")
        shop.read(in_log("a 5", 100, 1000), in_log("a", 100, 1000, server_id=5))
        shop.read(in_log("a 5", 100, 1000), in_log("a", 100, 1000, server_id=5))
        assert shop.shows() == [("new", 2, money("2.00"))]

    def test_a_log_that_an_earlier_version_may_have_mixed_up_stops_the_run(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop = Shop(trial, "maxwell-json")
        with monkeypatch.context() as earlier:
            for module in (log, places):
                earlier.setattr(module, "name_log", lambda *parts: " ".join(str(each) for each in parts if each))
            shop.read(in_log("bin #0", 100, 1000), in_log("bin", 100, 1000, server_id=5))
        shop.read(in_log("bin", 100, 1000, server_id=5), in_log("bin", 101, 1000, server_id=5))
        assert shop.shows() == [("new", 3, money("3.00"))]
        with pytest.raises(ConfigError, match=r"has the log 'bin #0', which may be two logs.*headwater rebuild"):
            shop.read(in_log("bin #0", 101, 1000))
        assert shop.shows() == [("new", 3, money("3.00"))]

    def test_rows_without_a_position_count_with_a_warning(self, trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
        """Maxwell's output_xoffset is off: rows of one statement share a position."""
        shop = Shop(trial, "maxwell-json")
        rows = [maxwell("insert", order(at, "new", "1.00", "01 09:00:00"), position="b.1:4") for at in range(2)]
        shop.read(*rows, maxwell("insert", order(3, "new", "1.00", "01 09:00:00"), position="b.1:4", commit=True))
        assert shop.shows() == [("new", 3, money("3.00"))]
        assert _told_once_a_run(caplog) == 1

    def test_the_last_row_of_a_transaction_has_no_number(self, trial: Trial) -> None:
        shop = Shop(trial, "maxwell-json", more=PLACE, keys=PLACED, pipeline=IDENTITY)
        one = order(1, "new", "1.00", "01 09:00:00")
        told = [
            maxwell("insert", one, position="binlog.000009:4", xoffset=0),
            maxwell("insert", one, position="binlog.000009:4", xoffset=1),
            maxwell("insert", one, position="binlog.000009:4", commit=True),
            maxwell("insert", one, position="binlog.000009:8", commit=True),
        ]
        shop.read(*told[:3])
        shop.read(*told)
        assert shop.shows() == [("new", 4, money("4.00"))]
        assert shop.dead() == []


def debezium(op: str, before: Any, after: Any, **more: Any) -> str:
    return json.dumps({"before": before, "after": after, "op": op, "source": {"ts_ms": 1709280000000}} | more)


def at(id_: int, state: str, amount: str) -> dict[str, Any]:
    return {"id": id_, "state": state, "amount": amount, "mtime": "2024-03-01T09:00:00Z"}


FULL = "in PostgreSQL set REPLICA IDENTITY FULL"
UNSENT = "__debezium_unavailable_value"


class TestDebezium:
    def test_every_kind_of_message(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json")
        shop.read(
            debezium("r", None, at(1, "new", "1.00")),
            debezium("c", None, at(2, "new", "2.00")),
            debezium("u", at(1, "new", "1.00"), at(1, "paid", "1.00")),
            debezium("m", None, None, message={"prefix": "p", "content": "aGVsbG8="}),
            debezium("d", at(2, "new", "2.00"), None),
            debezium("t", None, None),
        )
        assert shop.shows() == [("paid", 1, money("1.00"))]
        assert shop.dead() == ["the table was emptied, and its rows are not listed: build the pipeline again"]

    def test_a_changed_key_is_a_delete_a_tombstone_and_a_create(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json", keys='key = ["id"]')
        shop.read(debezium("c", None, at(1, "new", "1.00")))
        shop.read(
            debezium("d", at(1, "new", "1.00"), None),
            '{"schema":null,"payload":null}',
            debezium("c", None, at(9, "new", "1.00")),
        )
        assert shop.shows() == [("new", 1, money("1.00"))]
        assert shop.dead() == []

    def test_a_large_value_that_did_not_change_is_the_old_one(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json")
        shop.read(
            debezium("c", None, at(1, "new", "1.00")),
            debezium("u", at(1, "new", "1.00"), at(1, UNSENT, "3.00")),
            debezium("u", at(1, UNSENT, "3.00"), at(1, "paid", "3.00")),
        )
        assert shop.shows() == [("new", 1, money("3.00"))]
        assert shop.dead() == [f"column 'state': its unchanged value was not sent; {FULL}"]

    def test_updates_and_deletes_without_an_old_image_are_set_aside(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json", keys='key = ["id"]')
        shop.read(
            debezium("c", None, at(1, "new", "1.00")),
            debezium("u", None, at(1, "paid", "1.00")),
            debezium("d", {"id": 1, "state": None, "amount": None, "mtime": None}, None),
            debezium("d", {"id": 1}, None),
        )
        assert shop.shows() == [("new", 1, money("1.00"))]
        assert shop.dead() == [
            f"before: a delete that has only the key; {FULL}",
            f"before: an update without its whole old image; {FULL}",
            "column mtime is null, so it has no day",
        ]

    def test_deletes_with_only_the_columns_of_an_index_are_set_aside(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json")
        shop.read(
            debezium("c", None, at(1, "new", "1.00")),
            debezium("d", {"id": 1}, None),
            debezium("d", {"amount": "1.00", "mtime": 1709280000000}, None),
        )
        assert shop.shows() == [("new", 1, money("1.00"))]
        assert len(shop.dead()) == 2
        assert all(why.startswith("before: a delete without its whole old image: ") for why in shop.dead())

    def test_a_snapshots_rows_share_their_place_and_are_not_taken_for_repeats(self, trial: Trial) -> None:
        shop = Shop(trial, "debezium-json", more=PLACE, keys=PLACED, pipeline=IDENTITY)
        place = {"file": "bin.000003", "pos": 484, "row": 0}
        shop.read(
            debezium("r", None, at(1, "new", "1.00"), source=place),
            debezium("r", None, at(2, "new", "2.00"), source=place),
            debezium("c", None, at(3, "new", "4.00"), source=place),
        )
        assert shop.shows() == [("new", 1, money("4.00"))]
        assert shop.dead() == ["identity column line is null or has no number at its end"] * 2

    def test_a_binlogs_place_is_found_in_the_source(self, trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
        shop = Shop(trial, "debezium-json")

        def placed(server: int, file: str, pos: int, row: int, name: str = "shop") -> dict[str, Any]:
            more = {"name": name, "server_id": server, "gtid": None, "file": file, "pos": pos, "row": row}
            return {"source": more | {"ts_ms": 1709280000000}}

        told = [
            debezium("c", None, at(1, "new", "1.00"), **placed(1, "bin.000900", 4, 0)),
            debezium("c", None, at(2, "new", "1.00"), **placed(1, "bin.000900", 4, 1)),
            debezium("u", at(1, "new", "1.00"), at(1, "paid", "1.00"), **placed(1, "bin.000900", 9, 0)),
            debezium("c", None, at(3, "new", "1.00"), **placed(2, "bin.000001", 4, 0)),
            debezium("c", None, at(4, "new", "1.00"), **placed(2, "bin.000001", 4, 0, name="another")),
        ]
        enveloped = ['{"schema":null,"payload":' + each + "}" for each in told]
        shop.read(told[0], *told[:3], told[1])
        shop.read(*enveloped[1:], told[3], enveloped[4])
        assert shop.shows() == [("new", 3, money("3.00")), ("paid", 1, money("1.00"))]
        assert _told_once_a_run(caplog) == 0

    def test_postgresqls_positions_are_not_used_as_rows_of_a_copy_share_one(
        self, trial: Trial, caplog: pytest.LogCaptureFixture
    ) -> None:
        shop = Shop(trial, "debezium-json")
        source = {"ts_ms": 1709280000000, "lsn": 24023128, "txId": 571, "sequence": '["24023119","24023128"]'}
        shop.read(*(debezium("c", None, at(each, "new", "1.00"), source=source) for each in (1, 2)))
        assert shop.shows() == [("new", 2, money("2.00"))]
        assert _told_once_a_run(caplog) == 1


class TestPlainRows:
    def test_a_column_tells_the_row_kind(self, trial: Trial) -> None:
        shop = Shop(trial, "json", more=", op string", keys='row_kind = "op"')
        shop.read(
            json.dumps(at(1, "new", "1.00") | {"op": "c"}),
            json.dumps(at(2, "new", "2.00") | {"op": "+I"}),
            json.dumps(at(1, "new", "1.00") | {"op": "-U"}),
            json.dumps(at(1, "paid", "1.50") | {"op": "+U", "mtime": "2024-03-03T09:00:00Z"}),
            json.dumps(at(2, "new", "2.00") | {"op": "d"}),
            json.dumps(at(1, "paid", "1.75") | {"op": "u"}),
        )
        assert shop.shows() == [("paid", 1, money("1.50"))]
        assert [(row[0].day, *row[1:3]) for row in shop.shows("deltas")] == [
            (1, "new", 1),
            (3, "new", -1),
            (3, "paid", 1),
        ]
        assert shop.dead() == [PAIRED_ROW_KINDS.refusal("op") + "'u'"]
