"""Dead letters read again, in memory: which are used, which stay, and that a crash does not change either."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater import Headwater
from headwater.adapters.records.dead_letters import COLUMNS, JsonDeadLetters
from headwater.app.config import load
from headwater.app.run.replay import replay
from headwater.app.run.runner import Runner
from headwater.domain.epoch.epoch import Tally
from headwater.domain.errors import BadInput, ConfigError, NotSupported, SourceChanged, StoreUnavailable
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.domain.source import dead_letter
from headwater.domain.source.dead_letter import extract
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import memory_backend
from tests.configurations import FILES, ranked_contracts
from tests.rows_source import RowsSource

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.app.run.replay import ReplayResult
    from headwater.domain.ports import KeptStore

SCHEMA = Schema.parse("team bigint, id bigint, day date")
GOOD = {"team": 1, "id": 1}
TEAMLESS = [{"id": 2}, {"id": 3}]


def runner_over(store: KeptStore, given: list[dict[str, Any]]) -> Runner:
    """A runner of its own, as after a restart."""
    backend = memory_backend()
    settings = RankingSettings(pipeline="p", schema=SCHEMA, group=["team"], id=["id"], order_by="day")
    source = RowsSource(SCHEMA, backend.frame, given=given)
    service = Ranking(settings, backend.engine)
    return Runner("p", service, source, store, store, backend.engine, ManualClock(), "run")


def table(runner: Runner, name: str) -> list[dict[str, Any]]:
    rows = runner.ledger.snapshot().read(f"p.{name}").collect(backend="pyarrow").rows(named=True)
    return sorted(rows, key=lambda row: json.dumps(row, default=str))


def _narrow(frame: Any) -> Any:
    """Letters as they were once kept."""
    return frame.drop("format", "row_kind", "bytes")


class TestReplay:
    def test_what_was_mended_goes_in_and_the_rest_stays(self) -> None:
        store = memory_backend().open()
        runner = runner_over(store, [GOOD, *TEAMLESS])
        runner.run(until_idle=True)
        before = table(runner, "dead_letters")
        assert [(each["epoch"], each["origin"], each["row_kind"], each["format"]) for each in before] == [
            (0, "1", "+I", "rows"),
            (0, "2", "+I", "rows"),
        ]
        done = replay(runner_over(store, [GOOD, {"team": 1, "id": 2}, TEAMLESS[1]]))
        assert (done.read, done.rows, done.left, done.unreadable) == (2, 1, 1, 0)
        runner = runner_over(store, [])
        assert [row["id"] for row in table(runner, "ranked")] == [1, 2]
        assert [(each["epoch"], each["origin"]) for each in table(runner, "dead_letters")] == [(1, "2")]
        assert [publication.offsets for publication in runner.ledger.publications()] == [{"rows": 3}] * 2

    def test_no_epoch_is_made_where_nothing_can_be_read(self) -> None:
        store = memory_backend().open()
        runner = runner_over(store, [GOOD])
        assert replay(runner).read == 0
        runner.run(until_idle=True)
        assert replay(runner).read == 0
        assert runner.ledger.next_epoch.number == 1

    def test_letters_of_another_format_stay_untouched(self) -> None:
        store = memory_backend().open()
        runner_over(store, [GOOD, TEAMLESS[0]]).run(until_idle=True)
        other = runner_over(store, [])
        other.source.reread_formats = ("json",)
        done = replay(other)
        assert (done.read, done.rows, done.left, done.unreadable) == (0, 0, 1, 1)
        assert [each["epoch"] for each in table(other, "dead_letters")] == [0]

    def test_letters_from_before_formats_were_kept_stay_untouched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store, kept = memory_backend().open(), dead_letter.SCHEMA
        with monkeypatch.context() as before:
            before.setattr(dead_letter, "SCHEMA", kept.without(["format", "row_kind", "bytes"]))
            before.setattr(dead_letter, "extract", lambda rows, batch: _narrow(extract(rows, batch)))
            runner_over(store, [GOOD, TEAMLESS[0]]).run(until_idle=True)
        runner_over(store, [GOOD, *TEAMLESS]).run(until_idle=True)
        done = replay(runner_over(store, [GOOD, *TEAMLESS]))
        assert (done.read, done.rows, done.left, done.unreadable) == (1, 0, 2, 1)
        found = table(runner_over(store, []), "dead_letters")
        assert [(each["epoch"], each["origin"], each["format"]) for each in found] == [(0, "1", None), (2, "2", "rows")]

    @pytest.mark.lengthy
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("commit", [1, 2, 3])
    @pytest.mark.parametrize("passing", [True, False])
    def test_a_fault_at_any_commit_loses_and_doubles_nothing(self, *, before: bool, commit: int, passing: bool) -> None:
        store, mended = memory_backend().open(), [GOOD, {"team": 1, "id": 2}, TEAMLESS[1]]
        runner_over(store, [GOOD, *TEAMLESS]).run(until_idle=True)
        failing = runner_over(store, mended)
        failing.store = FailingStore(store, Fault(before, commit, passing))
        with pytest.raises(StoreUnavailable if passing else Crash):
            replay(failing)
        published = not before and commit == 3
        assert len(table(runner_over(store, []), "dead_letters")) == (1 if published else 2)
        done = replay(runner_over(store, mended))
        assert (done.read, done.rows) == ((1, 0) if published else (2, 1))
        runner = runner_over(store, [])
        assert [row["id"] for row in table(runner, "ranked")] == [1, 2]
        assert [row["_count"] for row in table(runner, "cells")] == [2]
        assert [each["origin"] for each in table(runner, "dead_letters")] == ["2"]

    def test_a_run_goes_on_where_a_replay_was_cut_off(self) -> None:
        store, mended = memory_backend().open(), [GOOD, {"team": 1, "id": 2}, TEAMLESS[1]]
        runner_over(store, [GOOD, *TEAMLESS]).run(until_idle=True)
        failing = runner_over(store, mended)
        failing.store = FailingStore(store, Fault(before=False, commit=2))
        with pytest.raises(Crash):
            replay(failing)
        more = runner_over(store, [*mended, {"team": 1, "id": 4}])
        more.run(until_idle=True)
        assert [row["id"] for row in table(more, "ranked")] == [1, 4]
        assert len(table(more, "dead_letters")) == 2


class Records:
    """A deployment in memory whose file and configuration a test changes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.pipeline = folder, memory_backend().open(), ""
        (folder / "in").mkdir()

    def give(self, name: str, content: bytes) -> None:
        (self.folder / "in" / name).write_bytes(content)

    def deploy(self, source: str, schema: str = "project bigint, contract bigint, signed timestamp") -> Headwater:
        file = self.folder / "deploy.toml"
        file.write_text(ranked_contracts(source=f"{FILES}{source}", schema=schema, pipeline=self.pipeline))
        headwater = Headwater(load(file, {}), report=lambda _: None)
        for runner in headwater.start():
            runner.store = runner.keeper = self.store
        return headwater

    def run(self, source: str) -> list[dict[str, Any]]:
        """Run until idle; the letters."""
        headwater = self.deploy(source)
        headwater.run(until_idle=True)
        return self.letters(headwater)

    def letters(self, headwater: Headwater) -> list[dict[str, Any]]:
        return headwater.view("ranked.dead_letters").sort("position").to_dicts()

    def replay(self, source: str, **more: str) -> tuple[ReplayResult, list[dict[str, Any]], list[int]]:
        """What a replay did; the letters that are left; the contracts there are."""
        headwater = self.deploy(source, **more)
        done = headwater.replay("ranked")
        (status,) = headwater.status()
        assert status.dead_letters == done.left
        return done, self.letters(headwater), sorted(headwater.view("ranked.ranks")["contract"].to_list())


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


JSON = 'format = "json"\n'
CSV = 'format = "csv"\n'
MAXWELL = 'format = "maxwell-json"\n'


class TestFormats:
    def test_a_format_that_was_taken_for_another(self, records: Records) -> None:
        message = '{"type":"insert","database":"d","table":"t","data":{"project":1,"contract":7,"signed":null}}'
        records.give("a.json", f"{message}\n[7]\n".encode())
        first, second = records.run(JSON)
        assert (first["raw"], first["format"], first["reason"]) == (message, "json", "id column contract is null")
        assert (
            second["reason"]
            == 'a JSON object wanted, not [7]; write one whole object a line; if the file is one array, set layout = "array"'
        )
        done, letters, contracts = records.replay(MAXWELL)
        assert (done.read, done.rows, contracts) == (2, 1, [7])
        assert [(each["format"], each["raw"], each["epoch"]) for each in letters] == [("maxwell-json", "[7]", 1)]

    def test_bytes_that_are_no_text_come_back_as_they_were(self, records: Records) -> None:
        records.give("a.json", b'{"project": "\xff\\\\xff"}\n')
        (letter,) = records.run(JSON)
        assert (letter["raw"], letter["bytes"]) == ('{"project": "\\xff\\\\xff"}', b'{"project": "\xff\\\\xff"}')
        _, (again,), _ = records.replay(JSON)
        assert (again["raw"], again["bytes"], again["epoch"]) == (letter["raw"], letter["bytes"], 1)

    def test_csv_by_the_header_of_its_file(self, records: Records) -> None:
        records.give("a.csv", b"signed,contract,project\n2024-03-01 09:00,11,1\n2024-03-01 10:00,12\n,13,\n")
        short, groupless = records.run(CSV)
        assert (short["raw"], short["format"]) == ("2024-03-01 10:00,12", "csv")
        done, letters, contracts = records.replay(CSV)
        assert (done.read, done.rows, contracts) == (2, 0, [11])
        assert [each["reason"] for each in letters] == [short["reason"], groupless["reason"]]

    def test_csv_whose_file_is_gone(self, records: Records) -> None:
        records.give("a.csv", b"signed,contract,project\n2024-03-01 10:00,12\n")
        records.run(CSV)
        (records.folder / "in" / "a.csv").unlink()
        with pytest.raises(SourceChanged, match=r"a\.csv is gone, and with it the header .*: put it back"):
            records.replay(CSV)

    def test_csv_whose_header_lacks_a_new_column(self, records: Records) -> None:
        records.give("a.csv", b"signed,contract,project\n2024-03-01 10:00,12\n")
        records.run(CSV)
        with pytest.raises(BadInput, match="column 'note' is missing from the header"):
            records.replay(CSV, schema="project bigint, contract bigint, signed timestamp, note string")

    def test_parquet_stays(self, records: Records) -> None:
        rows = pa.table({"project": pa.array([None], pa.int64()), "contract": [1], "signed": [None]})
        schema = pa.schema([("project", pa.int64()), ("contract", pa.int64()), ("signed", pa.timestamp("us"))])
        pq.write_table(rows.cast(schema), records.folder / "in" / "a.parquet")
        (letter,) = records.run('format = "parquet"\n')
        done, (left,), _ = records.replay('format = "parquet"\n')
        assert (done.read, done.left, done.unreadable, left) == (0, 1, 1, letter)
        source = records.deploy('format = "parquet"\n').start()[0].source
        with pytest.raises(NotSupported, match="write the corrected records to a new file"):
            source.reread(records.deploy(JSON).answer("ranked.dead_letters").frame)

    def test_an_update_whose_rows_both_failed_is_no_more_after_it_failed_again(self, records: Records) -> None:
        data, old = {"project": None, "contract": 7, "signed": "2024-03-01 09:00:00"}, {"signed": None}
        message = {"type": "update", "database": "d", "table": "t", "data": data, "old": old}
        records.give("a.json", json.dumps(message).encode() + b"\n")
        records.pipeline = 'repeats = "same-segment"\n'
        letters = records.run(MAXWELL)
        for number in range(1, 3):
            assert [each["row_kind"] for each in letters] == ["-U", "+U"]
            done, letters, _ = records.replay(MAXWELL)
            assert (done.read, done.left, [each["epoch"] for each in letters]) == (2, 2, [number] * 2)

    def test_the_tally_counts_a_letter_once_whatever_rows_it_brings(self, records: Records) -> None:
        data = {"project": 1, "contract": 7, "signed": "2024-03-01 09:00:00"}
        message = {"type": "update", "table": "t", "data": data, "old": {"project": 2}}
        records.give("a.json", f"{json.dumps(message)}\n[7]\n".encode())
        assert len(records.run(f'{MAXWELL}tables = ["d.t"]\n')) == 2
        headwater = records.deploy(MAXWELL)
        done = headwater.replay("ranked")
        (runner,) = headwater.start()
        latest = runner.ledger.latest
        assert latest
        assert (done.read, done.rows, done.left, latest.tally) == (2, 2, 1, Tally(2, 1))

    def test_an_unknown_pipeline(self, records: Records) -> None:
        with pytest.raises(ConfigError, match="there is no pipeline 'rank'"):
            records.deploy(JSON).replay("rank")


MESSAGE = {"type": "update", "database": "d", "table": "t", "data": {"id": 1, "x": "b"}, "old": {"x": "a"}}
SPEC = RecordSpec(Schema.parse("id bigint, x string"), "maxwell-json")


def read_again(*letters: tuple[str | None, str | None, bytes | None], spec: RecordSpec = SPEC) -> list[dict[str, Any]]:
    """Rows of letters, each of a row kind, `raw` and `bytes`."""
    columns = [(kind, "here", raw, original) for kind, raw, original in letters]
    arrays = [pa.array(list(values)) for values in zip(*columns, strict=True)]
    batch = pa.record_batch(arrays, names=list(COLUMNS))
    return [row for part in JsonDeadLetters(spec)([batch], 100) for row in part.to_pylist()]


class TestRowsOfLetters:
    """A letter of one of a record's rows brings that row and no other."""

    def test_a_whole_record_brings_all_its_rows(self) -> None:
        found = read_again((None, json.dumps(MESSAGE), None))
        assert [(row["_row_kind"], row["x"], row["_position"]) for row in found] == [("-U", "a", 100), ("+U", "b", 101)]

    def test_one_of_its_rows_comes_alone(self) -> None:
        found = read_again(("+U", json.dumps(MESSAGE), None), ("-U", json.dumps(MESSAGE), None))
        assert [(row["_row_kind"], row["x"]) for row in found] == [("+U", "b"), ("-U", "a")]
        assert found[0]["_position"] + len(json.dumps(MESSAGE)) < found[1]["_position"]

    def test_a_row_that_the_record_has_no_longer_is_not_replaced_by_another(self) -> None:
        (row,) = read_again(("-D", json.dumps(MESSAGE), None))
        assert (row["_row_kind"], row["id"], row["_raw"]) == ("-D", None, json.dumps(MESSAGE))
        assert row["_error"].startswith("read once more, it has no row -D any longer")

    def test_a_record_that_has_become_none_of_ours_brings_nothing(self) -> None:
        assert read_again((None, json.dumps(MESSAGE | {"type": "table-alter"}), None)) == []

    def test_a_tombstone_and_bytes_stay_what_they_were(self) -> None:
        plain = RecordSpec(SPEC.schema)
        tombstone, broken = read_again((None, None, None), (None, '"\\xff"', b'"\xff"'), spec=plain)
        assert tombstone["_error"] == "no value: a tombstone says nothing in plain json"
        assert (broken["_raw"], broken["_bytes"]) == ('"\\xff"', b'"\xff"')
        assert (tombstone["_raw"], tombstone["_bytes"]) == (None, None)
