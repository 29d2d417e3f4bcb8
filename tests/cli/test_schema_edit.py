"""A schema edit that fails on the first file can be undone: tables get a column with the epoch that brings it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import FILES, SCHEMA, on_backend, ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "backend",
    ["parquet", pytest.param("delta", marks=pytest.mark.delta), pytest.param("hudi-mor", marks=pytest.mark.hudi)],
)
def test_a_column_is_added_and_taken_out_again(
    tmp_path: Path,
    parquet_backend: None,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    backend: str,
) -> None:
    if backend != "parquet":
        request.getfixturevalue("spark")
    (tmp_path / "in").mkdir()

    def run(schema: str, contract: int) -> int:
        text = f"project,contract,signed\n1,{contract},2024-03-0{contract}T09:00:00Z\n"
        (tmp_path / "in" / f"{contract}.csv").write_text(text)
        source = f'{FILES}format = "csv"\n'
        kept = on_backend(backend)
        (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=kept, source=source, schema=schema))
        return main(["run", str(tmp_path / "deploy.toml"), "--until-idle"])

    assert run(SCHEMA, 1) == 0
    assert run(f"{SCHEMA}, site int", 2) == 1
    assert "column 'site' is missing from the header" in capsys.readouterr().err
    assert run(SCHEMA, 2) == 0
    assert run(f"{SCHEMA}, site string", 3) == 1
    capsys.readouterr()
    assert main(["show", str(tmp_path / "deploy.toml"), "ranked", "--format", "jsonl"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["contract"], each["site"], each["rank"]) for each in shown] == [(1, None, 1), (2, None, 2)]
