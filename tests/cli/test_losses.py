"""Rows that become dead letters are reported: warnings with the reasons, and a stop."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

BAD = "{"
NO_NUMBER = '{"project": "one", "contract": 1, "signed": "2024-03-01T09:00:00Z"}'
PARQUET = 'name = "parquet"\npath = "lake"\n'


def good(count: int) -> list[str]:
    return [json.dumps({"project": 1, "contract": at, "signed": "2024-03-01T09:00:00Z"}) for at in range(count)]


@pytest.fixture
def folder(tmp_path: Path, parquet_backend: None) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def run(folder: Path, *files: list[str], backend: str = 'name = "memory"\n', settings: str = "") -> int:
    """Run over these files, named in order."""
    for at, lines in enumerate(files):
        (folder / "in" / f"{at}.json").write_text("\n".join(lines))
    (folder / "deploy.toml").write_text(ranked_contracts(backend=backend, run=settings))
    return main(["run", str(folder / "deploy.toml"), "--until-idle"])


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What stands on standard error beside the progress."""
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_a_run_that_loses_all_of_a_few_rows_says_so(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run(folder, [NO_NUMBER] * 3, [NO_NUMBER]) == 0
    reason = "column 'project': bigint wanted, not 'one'"
    assert warned(caplog) == [
        f"ranked epoch 0: 3 of 3 rows (100 %) became dead letters, more than dead_letter_limit = 10%: 3 x {reason}",
        f"ranked epoch 1: 1 of 1 row (100 %) became dead letters, more than dead_letter_limit = 10%: 1 x {reason}",
        f"ranked: in this run 4 of 4 rows (100 %) became dead letters: 4 x {reason};"
        " `headwater dead-letters` lists them",
    ]


def test_the_sum_of_a_run_says_which_of_its_rows_it_gives_reasons_of(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(folder, [*good(19), NO_NUMBER], [BAD]) == 0
    summary = warned(caplog)[-1]
    assert summary.startswith(
        "ranked: in this run 2 of 21 rows (10 %) became dead letters, 1 of them in epochs beyond dead_letter_limit: 1 x"
        " not JSON"
    )


def test_a_rebuild_sums_up_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run(folder, [*good(2), NO_NUMBER], backend='name = "delta"\nengine = "local"\npath = "lake"\n') == 0
    caplog.clear()
    assert main(["rebuild", str(folder / "deploy.toml"), "ranked"]) == 0
    assert [each.partition(";")[0] for each in warned(caplog) if "in this run" in each] == [
        "ranked: in this run 1 of 3 rows (33 %) became dead letters: 1 x column 'project': bigint wanted, not 'one'"
    ]


@pytest.mark.parametrize(
    ("settings", "bad", "warns"),
    [
        ("", 2, False),
        ("", 3, True),
        ('dead_letter_limit = "20%"\n', 3, False),
        ("dead_letter_limit = 1\n", 1, False),
        ("dead_letter_limit = 1\n", 2, True),
        ("dead_letter_limit = 0\n", 1, True),
        ("dead_letter_limit = 0\n", 0, False),
    ],
)
def test_the_limit_is_a_share_or_a_number_of_rows(
    folder: Path, caplog: pytest.LogCaptureFixture, settings: str, bad: int, warns: object
) -> None:
    """Of 20 rows."""
    assert run(folder, [*[BAD, NO_NUMBER, BAD][:bad], *good(20 - bad)], settings=settings) == 0
    said = warned(caplog)
    assert bool(said) is warns
    if bad == 3:
        assert all("2 x not JSON: " in line and "; 1 x column 'project'" in line for line in said)


def test_a_pipeline_whose_first_rows_are_all_bad_stops(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are counted over epochs and runs; what was published before stays."""
    assert run(folder, [BAD] * 999, backend=PARQUET) == 0
    capsys.readouterr()
    assert run(folder, [BAD] * 999, [NO_NUMBER] * 2, backend=PARQUET) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"headwater: {folder / 'deploy.toml'}:")
    assert "pipelines.ranked: pipeline 'ranked': the first 1,001 rows that it has read are all dead letters" in message
    assert "(2 x column 'project': bigint wanted, not 'one'); nothing of epoch 1 is published." in message
    assert message.endswith("to skip such rows, set dead_letter_stop = 0 under [run]")
    assert main(["status", str(folder / "deploy.toml"), "--format", "jsonl"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["epoch"], status["dead_letters"]) == (0, 999)
    assert run(folder, [BAD] * 999, [NO_NUMBER] * 2, backend=PARQUET, settings="dead_letter_stop = 0\n") == 0


def test_a_pipeline_that_has_used_a_row_goes_on(folder: Path) -> None:
    assert run(folder, good(1), [BAD] * 2000) == 0


def test_a_limit_that_is_none_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ('"ten"', '"10"%', '"110%"', "true", "-1"):
        assert run(folder, settings=f"dead_letter_limit = {wrong}\n") == 2
    err = capsys.readouterr().err
    assert "deploy.toml:4: run.dead_letter_limit: 'ten' is not a number of rows, or a share such as '10%'" in err
