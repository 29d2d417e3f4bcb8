"""``headwater roll``, over the example backend: its tables outlive their process, and it needs no JVM."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

DEPLOYMENT = """
[backend]
name = "parquet"
path = "lake"

[sources.orders]
kind = "files"
path = "in"
schema = "id bigint, state string, mtime timestamp"
event_time = "mtime"

[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = { orders = "count(*)" }
updated_at = "mtime"
"""
ORDERS = [("new", "2024-03-01T09:00:00Z"), ("new", "2024-03-02T09:00:00Z"), ("paid", "2024-03-03T09:00:00Z")]
CUT = "the past contains all days before"


@pytest.fixture
def config(tmp_path: Path, parquet_backend: None) -> str:
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": at, "state": state, "mtime": time}) for at, (state, time) in enumerate(ORDERS)]
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return str(tmp_path / "deploy.toml")


@pytest.fixture
def ran(config: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    return config


def shown(config: str, view: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["show", config, view, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("option", "cut"),
    [(["--cut", "2024-03-02"], "2024-03-02"), ([], "2024-03-03"), (["--cut=2024-04-01"], "2024-04-01")],
)
def test_days_before_the_cut_go_into_the_past(
    ran: str, capsys: pytest.CaptureFixture[str], option: list[str], cut: str
) -> None:
    """Without a cut, it is the day of the watermark."""
    totals, days = shown(ran, "states", capsys), shown(ran, "states.deltas", capsys)
    assert [day["day"] for day in days] == ["2024-03-01", "2024-03-02", "2024-03-03"]
    assert main(["roll", ran, "states", *option]) == 0
    assert capsys.readouterr() == ("", f"headwater: states: {CUT} {cut}\n")
    assert shown(ran, "states", capsys) == totals == [{"state": "new", "orders": 2}, {"state": "paid", "orders": 1}]
    assert shown(ran, "states.deltas", capsys) == [day for day in days if day["day"] >= cut]


def test_a_cut_again_changes_nothing_and_an_earlier_one_is_refused(
    ran: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["roll", ran, "states", "--cut", "2024-03-03"]) == 0
    capsys.readouterr()
    assert main(["roll", ran, "states", "--cut", "2024-03-02"]) == 2
    assert capsys.readouterr() == (
        "",
        "headwater: the past already reaches up to day 2024-03-03, so it cannot be cut at 2024-03-02\n",
    )
    assert [day["day"] for day in shown(ran, "states.by_day", capsys)] == ["2024-03-03"]


def test_a_run_goes_on_behind_the_cut(ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roll", ran, "states", "--cut", "2024-03-03"]) == 0
    late = {"id": 9, "state": "new", "mtime": "2024-03-01T10:00:00Z"}
    (tmp_path / "in" / "2.json").write_text(json.dumps(late))
    assert main(["run", ran, "--until-idle"]) == 0
    capsys.readouterr()
    assert shown(ran, "states", capsys)[0] == {"state": "new", "orders": 3}


def test_days_that_have_not_begun_stay(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped year would put all days to come into the past, for good."""
    days = shown(ran, "states.deltas", capsys)
    for cut in ("2204-03-02", "9999-12-31"):
        assert main(["roll", ran, "states", "--cut", cut]) == 2
        assert f"pipeline 'states': the cut {cut} is in the future" in capsys.readouterr().err
    assert shown(ran, "states.deltas", capsys) == days
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    assert main(["roll", ran, "states", "--cut", str(tomorrow)]) == 0


def test_the_day_of_one_record_that_is_dated_far_ahead_is_no_cut(
    ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user-supplied past would be replaced by that of this day, and nothing would count before it, for good."""
    (tmp_path / "in" / "2.json").write_text(json.dumps({"id": 9, "state": "new", "mtime": "2099-12-31T00:00:00Z"}))
    assert main(["run", ran, "--until-idle"]) == 0
    capsys.readouterr()
    days, today = shown(ran, "states.deltas", capsys), datetime.now(UTC).date()
    assert main(["roll", ran, "states"]) == 2
    assert capsys.readouterr() == (
        "",
        f"headwater: pipeline 'states': its watermark 2099-12-31 is in the future: today is {today}. A cut cannot be"
        " taken back; give one (--cut DAY) that is at most 300 days after today\n",
    )
    for beyond in (301, 20_000):
        assert main(["roll", ran, "states", "--cut", str(today + timedelta(days=beyond))]) == 2, "the clock decides"
    assert shown(ran, "states.deltas", capsys) == days
    assert main(["roll", ran, "states", "--cut", "2024-03-03"]) == 0
    assert [day["day"] for day in shown(ran, "states.deltas", capsys)] == ["2024-03-03", "2099-12-31"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["states"], "pipeline 'states' has published nothing yet; run it first"),
        (["state"], "there is no pipeline 'state'; there are: states; did you mean 'states'?"),
    ],
)
def test_what_cannot_be_cut_is_told(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["roll", config, *arguments]) == 2
    assert capsys.readouterr() == ("", f"headwater: {message}\n")


def test_other_services_have_no_past(tmp_path: Path, parquet_backend: None, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deploy.toml").write_text(ranked_contracts(backend='name = "parquet"\npath = "lake"\n'))
    assert main(["roll", str(tmp_path / "deploy.toml"), "ranked"]) == 2
    assert "pipeline 'ranked' has no past that is cut by day; retractions have" in capsys.readouterr().err


def test_usage(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["--help"], 0), ([config, "states", "--cut", "tomorrow"], 2)):
        with pytest.raises(SystemExit) as ended:
            main(["roll", *arguments])
        assert ended.value.code == code
    out, err = capsys.readouterr()
    assert "Put the days before a cut into a retraction's past" in out
    assert "'tomorrow' is not a date such as 2024-03-01" in err


def test_check_explains_what_is_kept(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config]) == 0
    out = capsys.readouterr().out
    assert "states.sums: state string, _nulls bigint, _segment bigint, _rows bigint" in out
    assert "states.totals: the measures of each group, now\n      state, orders\n" in out
