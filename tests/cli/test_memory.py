"""The memory backend at the command line: commands on tables of earlier runs are refused, because these are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = [
    ["status"],
    ["show", "ranked"],
    ["diff", "ranked"],
    ["wait-for", "ranked", "--watermark", "2024-03-01"],
    ["versions", "ranked"],
    ["explain-retention"],
    ["pin", "ranked", "--for", "1h"],
    ["unpin", "ranked-1"],
    ["compact"],
    ["expire"],
    ["dead-letters", "ranked"],
    ["dead-letters", "ranked", "--replay"],
    ["plot", "ranked"],
    ["roll", "ranked"],
    ["bootstrap", "ranked", "--from", "topic=history"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_on_tables_of_earlier_runs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "in").mkdir()
    config = tmp_path / "my deploy.toml"
    config.write_text(ranked_contracts())
    name, *rest = command
    assert main([name, str(config), *rest]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"headwater: backend memory keeps nothing beyond its run, so `headwater {name}` has no")
    assert f"(headwater run '{config}' --until-idle --show PIPELINE.VIEW)" in err
    assert "one that keeps its tables: delta, hudi-cow, hudi-mor" in err
