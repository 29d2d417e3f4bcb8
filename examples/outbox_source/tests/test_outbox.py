"""The outbox under the contract suite for sources, and in a deployment."""

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from headwater import Headwater, RecordSpec, Schema
from headwater.app.cli.main import main
from headwater.domain.errors import ConfigError, SourceChanged, SourceUnavailable
from headwater.domain.ports import StreamSource
from headwater.testing.clock import NOW
from headwater.testing.source_contract import SourceContract
from headwater_outbox import OutboxInput, PolarsOutbox

SHOP = Path(__file__).parents[1] / "shop.toml"


def create(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)")


def append(database: Path, bodies: Sequence[str]) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT INTO outbox (body) VALUES (?)", [(body,) for body in bodies])


def order(customer: str, number: int, hour: int) -> str:
    return json.dumps({"customer": customer, "number": number, "at": f"2024-03-01T{hour:02d}:00:00Z"})


class TestOutbox(SourceContract):
    @pytest.fixture(autouse=True)
    def _database(self, tmp_path: Path) -> None:
        self.database = tmp_path / "shop.db"
        create(self.database)

    def open(self, records: RecordSpec, size: int) -> StreamSource:
        return PolarsOutbox(OutboxInput(str(self.database), "outbox", size), records)

    def bring(self, records: Sequence[bytes]) -> None:
        append(self.database, [record.decode() for record in records])

    def test_rows_that_are_deleted_before_they_are_read_stop_the_run(self) -> None:
        self.bring([b'{"id": 1}', b'{"id": 2}'])
        source = self.open(RecordSpec(Schema.parse("id bigint")), 2)
        planned = self.plan(source)
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("DELETE FROM outbox WHERE id = 1")
        with pytest.raises(SourceChanged, match="rows 1 to 2 have changed"):
            source.read(planned)

    def test_a_missing_table_is_unavailable(self) -> None:
        source = PolarsOutbox(OutboxInput(str(self.database), "other", 1), RecordSpec(Schema.parse("id bigint")))
        with pytest.raises(SourceUnavailable, match="no such table: other"):
            source.plan(None, NOW)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    create(tmp_path / "shop.db")
    append(tmp_path / "shop.db", [order("ada", 1, 9), order("ada", 2, 8), order("ben", 3, 7)])
    return Path(shutil.copy(SHOP, tmp_path))


def test_headwater_runs_it(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(shop), "--until-idle", "--show", "order_rank.ranks"]) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split() for row in rows] == [
        ["ada", "2", "2024-03-01T08:00:00Z", "1"],
        ["ada", "1", "2024-03-01T09:00:00Z", "2"],
        ["ben", "3", "2024-03-01T07:00:00Z", "1"],
    ]


def test_each_row_counts_once(shop: Path) -> None:
    with Headwater.from_config(shop, report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        assert headwater.epoch("order_rank") == 1  # two rows, then one
        append(shop.parent / "shop.db", [order("ada", 4, 7)])
        headwater.run(until_idle=True)
        ranks = headwater.view("order_rank.ranks").sort("customer", "rank").select("customer", "number", "rank")
        assert ranks.rows() == [("ada", 4, 1), ("ada", 2, 2), ("ada", 1, 3), ("ben", 3, 1)]


def test_a_misspelt_key_is_reported_with_its_line(shop: Path) -> None:
    shop.write_text(shop.read_text().replace("rows_per_epoch", "row_per_epoch"))
    with pytest.raises(ConfigError, match=r"shop.toml:7: .*unknown key; .*did you mean 'rows_per_epoch'"):
        Headwater.from_config(shop)


def test_a_variable_overrides_a_key(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_SOURCES__ORDERS__ROWS_PER_EPOCH", "3")
    with Headwater.from_config(shop, report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        assert headwater.epoch("order_rank") == 0
