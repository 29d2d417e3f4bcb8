"""Repeats at the command line: what `check` says of them, the epoch's line and `status` that count them, the exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

DEPLOYMENT = """
[backend]
name = "parquet"
path = "lake"

[sources.orders]
kind = "files"
path = "in"
format = "maxwell-json"
schema = "id bigint, state string, mtime timestamp, file string, pos bigint"
metadata = { file = "log_file", pos = "log_position" }

[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = { orders = "count(*)" }
updated_at = "mtime"
"""
AT_NIGHT = 1709280000


@pytest.fixture
def config(tmp_path: Path, parquet_backend: None) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return tmp_path / "deploy.toml"


def arrive(config: Path, name: str, *places: tuple[str, int]) -> None:
    """Let a file of inserts come, each at a position and so many seconds after midnight."""
    message = {"database": "shop", "table": "orders", "type": "insert", "commit": True}
    data = {"id": 1, "state": "new", "mtime": "2024-03-01 09:00:00"}
    lines = [json.dumps({**message, "ts": AT_NIGHT + seconds, "position": at, "data": data}) for at, seconds in places]
    (config.parent / "in" / name).write_text("\n".join(lines))


def shown(config: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["show", str(config), "states", "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "",
            'repeats, by the log, file, position and row that a message names (identity = "auto");\n'
            "      a message that does not name them counts",
        ),
        ('identity = "none"', 'nothing: every row counts, a repeat too (identity = "none")'),
        ('identity = ["file", "pos"]', "repeats, by file, pos (identity)"),
    ],
)
def test_check_says_what_tells_a_repeat(config: Path, capsys: pytest.CaptureFixture[str], more: str, told: str) -> None:
    config.write_text(DEPLOYMENT + more)
    assert main(["check", str(config)]) == 0
    assert f"states, from source orders\n  skips\n    {told}\n  tables\n" in capsys.readouterr().out


@pytest.mark.parametrize("format_", ["json", "canal-json"])
def test_check_says_that_records_have_no_position(
    config: Path, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    text = DEPLOYMENT.replace("maxwell-json", format_)
    config.write_text(text.replace('metadata = { file = "log_file", pos = "log_position" }\n', ""))
    assert main(["check", str(config)]) == 0
    told = 'nothing: every row counts, a repeat too; its records have no position in a log (identity = "auto")'
    printed = capsys.readouterr().out
    assert told in printed
    assert ("  takes back\n    nothing: " in printed) == (format_ == "json")


def test_check_says_nothing_of_rows_that_have_a_kind(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DEPLOYMENT.replace("maxwell-json", "json").replace('"id bigint', '"op string, id bigint')
    config.write_text(text.replace('metadata = { file = "log_file", pos = "log_position" }', 'row_kind = "op"'))
    assert main(["check", str(config)]) == 0
    assert "takes back" not in capsys.readouterr().out


def test_repeats_are_counted_in_the_epochs_line_and_in_status(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrive(config, "1.json", ("bin.000009:100", 0), ("bin.000009:200", 0), ("bin.000009:100", 0))
    arrive(config, "2.json", ("bin.000009:100", 0), ("bin.000009:200", 0), ("bin.000009:300", 0))
    assert main(["run", str(config), "--until-idle"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("states epoch 0: 3 rows in (1 repeat skipped), ")
    assert second.startswith("states epoch 1: 3 rows in (2 repeats skipped), ")
    assert main(["status", str(config), "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["repeats"] == 3
    assert shown(config, capsys) == [{"state": "new", "orders": 3}]


def test_a_place_far_back_ends_the_run_with_the_remedy_and_nothing_is_lost(
    config: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arrive(config, "1.json", ("bin.000900:100", 0))
    arrive(config, "2.json", ("bin.000900:200", 30), ("bin.000001:100", 60), ("bin.000001:200", 60))
    assert main(["run", str(config), "--until-idle"]) == 1
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith(f"headwater: {config}:13: pipelines.states: pipeline 'states': ")
    assert (
        "2.json: place of log 'bin' goes back to file 1, position 100, last row after file 900 was read,"
        " committed 2024-03-01T08:01:00Z where 2024-03-01T08:00:30Z was read before. A repeat may go back by 10m of commit"
        " time, and to the last 3 log files. Nothing of this epoch was counted. It was committed after everything"
        " that was read before, so it is not a repeat. If it comes from another server, or from a log that was reset, set"
        ' log_reset = "accept":'
    ) in told
    assert shown(config, capsys) == [{"state": "new", "orders": 1}]
    config.write_text(DEPLOYMENT + 'log_reset = "accept"')
    assert main(["run", str(config), "--until-idle"]) == 0
    assert 'a new log begins there, as log_reset = "accept"' in caplog.text
    assert shown(config, capsys) == [{"state": "new", "orders": 4}]
