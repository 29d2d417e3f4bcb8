"""A source reports what it skips: messages of tables that are not read, and files whose names end otherwise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import FILES, on_backend, ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

SIGNED = "2024-03-01T09:00:00Z"


def message(table: str, contract: int) -> str:
    row = {"project": 1, "contract": contract, "signed": SIGNED}
    told = {"database": "shop", "table": table, "type": "insert", "ts": 1709283600, "xid": contract, "data": row}
    return json.dumps(told)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def configured(folder: Path, tables: str, backend: str = 'name = "memory"\n') -> str:
    source = f'{FILES}format = "maxwell-json"\ntables = ["{tables}"]\n'
    (folder / "deploy.toml").write_text(ranked_contracts(backend=backend, source=source))
    return str(folder / "deploy.toml")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


class TestTables:
    @pytest.mark.parametrize("backend", ["memory", pytest.param("delta", marks=pytest.mark.delta)])
    def test_a_typo_is_told_with_the_tables_there_are(
        self,
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
        request: pytest.FixtureRequest,
        backend: str,
    ) -> None:
        if backend != "memory":
            request.getfixturevalue("spark")
        config = configured(folder, r"shop\\.order", on_backend(backend))
        first = [message("orders", 1), message("items", 2), message("orders", 3)]
        (folder / "in" / "a.json").write_text("\n".join(first))
        (folder / "in" / "b.json").write_text(message("orders", 4))
        assert main(["run", config, "--until-idle"]) == 0
        assert warnings(caplog) == [
            "ranked: no message belongs to a table that is read; skipped: 2 of shop.orders; 1 of shop.items;"
            " correct `tables` of the source"
        ]
        epochs = capsys.readouterr().err.splitlines()
        assert "ranked epoch 0: 0 rows in (3 messages of other tables skipped), 0 written" in epochs[0]
        assert "ranked epoch 1: 0 rows in (1 message of other tables skipped), 0 written" in epochs[1]

    def test_other_tables_beside_are_counted_and_no_warning(
        self, folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = [message("orders", 1), message("items", 2)]
        (folder / "in" / "a.json").write_text("\n".join(lines))
        (folder / "in" / "b.json").write_text(message("items", 3))
        assert main(["run", configured(folder, r"shop\\.orders"), "--until-idle"]) == 0
        assert warnings(caplog) == []
        assert "1 rows in (1 message of other tables skipped), " in capsys.readouterr().err


class TestFiles:
    def test_files_with_other_endings_are_told_once_a_run(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        for name in ("1.txt", "2.JSON", "3.csv", "4.parquet", "5.json.tmp", "_SUCCESS", ".hidden.csv"):
            (folder / "in" / name).write_text("")
        for name in ("a.json", "b.json"):
            (folder / "in" / name).write_text(f'{{"project": 1, "contract": 1, "signed": "{SIGNED}"}}')
        (folder / "deploy.toml").write_text(ranked_contracts())
        assert main(["run", str(folder / "deploy.toml"), "--until-idle"]) == 0
        assert warnings(caplog) == [
            f"{folder}/in: 4 files with other endings were skipped (1.txt, 2.JSON, 3.csv …): format json reads names"
            " that end in .json, .json.gz, .json.zst, .jsonl, .jsonl.gz, .jsonl.zst, .ndjson, .ndjson.gz, .ndjson.zst"
        ]

    def test_folders_beside_files_are_told_when_a_pipeline_begins(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (folder / "in" / "2024").mkdir()
        for name in ("a.json", "b.json", "2024/a.json"):
            (folder / "in" / name).write_text(f'{{"project": 1, "contract": 1, "signed": "{SIGNED}"}}')
        (folder / "deploy.toml").write_text(ranked_contracts())
        assert main(["run", str(folder / "deploy.toml"), "--until-idle"]) == 0
        assert warnings(caplog) == [f"{folder}/in: sub-folders are not read (2024): put the files into one folder"]

    def test_files_in_folders_only_are_told_once_a_run(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        (folder / "in" / "2024").mkdir()
        (folder / "in" / "2024" / "a.json").write_text(f'{{"project": 1, "contract": 1, "signed": "{SIGNED}"}}')
        (folder / "deploy.toml").write_text(ranked_contracts())
        assert main(["run", str(folder / "deploy.toml"), "--until-idle"]) == 0
        assert warnings(caplog) == [
            f"{folder}/in: there are no files to read, and sub-folders are not read (2024): put the files into one"
            " folder"
        ]
