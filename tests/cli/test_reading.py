"""``headwater show --at | --label | --longest``, ``diff``, ``wait-for``, and what upkeep lists for readers.

Over the example backend: its tables outlive their process, and it needs no JVM.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BACKEND = 'name = "parquet"\npath = "lake"\n'
EPOCHS = [[(1, 11, "2024-03-01T09:00:00Z"), (1, 12, "2024-03-02T10:00:00.5Z")], [(1, 13, "2024-03-05T08:00:00.25Z")]]
SHOWN = """
[pipelines.shown]
service = "snapshots"
inputs = { ranks = "ranked.ranks" }
every = "1h"
keys = { keyed = ["project"] }
[pipelines.shown.tables]
keyed = "SELECT project, count(*) AS n FROM ranks GROUP BY project"
plain = "SELECT contract FROM ranks"
"""
SECOND_LABEL = "2024-03-05T08:00:00.25Z"


def bring(folder: Path, name: str, contracts: Sequence[tuple[int, int, str]]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps(dict(zip(("project", "contract", "signed"), each, strict=True))) for each in contracts]
    (folder / "in" / name).write_text("\n".join(lines))


@pytest.fixture
def config(tmp_path: Path, parquet_backend: None, capsys: pytest.CaptureFixture[str]) -> str:
    """A deployment with two epochs behind it."""
    for at, contracts in enumerate(EPOCHS):
        bring(tmp_path, f"{at}.json", contracts)
    (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=BACKEND))
    assert main(["run", str(tmp_path / "deploy.toml"), "--until-idle"]) == 0
    capsys.readouterr()
    return str(tmp_path / "deploy.toml")


def told(capsys: pytest.CaptureFixture[str], command: str, config: str, *arguments: str) -> list[dict[str, Any]]:
    assert main([command, config, *arguments, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


class TestShow:
    @pytest.mark.parametrize(
        "version",
        [["--label", "2024-03-02T10:00:00.5Z"], ["--at", "label:2024-03-02T10:00:00.500+00:00"], ["--at", "0"]],
    )
    def test_a_version_by_its_label(self, config: str, capsys: pytest.CaptureFixture[str], version: list[str]) -> None:
        assert [each["contract"] for each in told(capsys, "show", config, "ranked", *version)] == [11, 12]

    def test_a_version_by_the_time_at_which_it_is_said_to_be_published(
        self, config: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        published = {each["epoch"]: each["published"] for each in told(capsys, "versions", config, "ranked")}
        shown = [len(told(capsys, "show", config, "ranked", "--at", published[epoch])) for epoch in (0, 1)]
        assert shown == [2, 3]

    def test_before_all_there_is_nothing(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert told(capsys, "show", config, "ranked", "--at", "-1") == []

    @pytest.mark.parametrize("form", ["table", "jsonl", "csv"])
    def test_a_table_whose_versions_have_their_own_columns_has_none_before_all(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
    ) -> None:
        bring(tmp_path, "0.json", EPOCHS[0])
        config = str(tmp_path / "deploy.toml")
        (tmp_path / "deploy.toml").write_text(
            ranked_contracts(backend='name = "delta"\nengine = "local"\npath = "lake"\n') + SHOWN
        )
        for _ in ("before the run", "after it"):
            for table in ("shown.keyed", "shown.plain"):
                assert main(["show", config, table, "--at", "-1", "--format", form]) == 0
                assert capsys.readouterr().out == ""
                assert main(["diff", config, table, "--from", "-1", "--to", "-1", "--format", "jsonl"]) == 0
                assert capsys.readouterr().out == ""
            assert main(["run", config, "--until-idle"]) == 0
            capsys.readouterr()
        assert told(capsys, "show", config, "shown.keyed") == [{"project": 1, "n": 2}]

    def test_a_label_that_is_not_there(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["show", config, "ranked", "--label", "2024-03-04"]) == 1
        assert capsys.readouterr() == (
            "",
            "headwater: pipeline 'ranked' has no version of label 2024-03-04T00:00:00Z; epoch 0 has"
            f" 2024-03-02T10:00:00.5Z; epoch 1 has {SECOND_LABEL}\n",
        )

    def test_a_read_that_may_not_end(self, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert len(told(capsys, "show", config, "ranked", "--longest", "2h")) == 3
        (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=BACKEND + "retain = { versions = 2 }\n"))
        assert main(["show", config, "ranked", "--longest", "2h"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "a read of 2h may not end: epoch 1 of pipeline 'ranked' is kept for" in err
        assert err.endswith("pin it first: headwater pin … ranked --at 1 --for 2h\n")
        assert main(["pin", config, "ranked", "--at", "label:" + SECOND_LABEL, "--for", "3h"]) == 0
        capsys.readouterr()
        assert len(told(capsys, "show", config, "ranked", "--longest", "2h")) == 3


class TestDiff:
    def test_a_keys_old_row_comes_before_its_new_one(
        self, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        bring(tmp_path, "2.json", [(1, 14, "2024-03-01T08:00:00Z")])
        assert main(["run", config, "--until-idle"]) == 0
        capsys.readouterr()
        rows = told(capsys, "diff", config, "ranked", "--from", "label:2024-03-02T10:00:00.5Z", "--to", "2")
        assert [(each["contract"], each["rank"], each["_row_kind"]) for each in rows] == [
            (11, 1, "-U"),
            (11, 2, "+U"),
            (12, 2, "-U"),
            (12, 3, "+U"),
            (13, 4, "+I"),
            (14, 1, "+I"),
        ]
        assert list(rows[0]) == ["project", "contract", "signed", "rank", "_row_kind"]

    def test_without_versions_what_the_newest_epoch_changed(
        self, config: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert [each["contract"] for each in told(capsys, "diff", config, "ranked.ranks")] == [13]
        assert len(told(capsys, "diff", config, "ranked", "--from", "-1", "--limit", "2")) == 2

    def test_rows_without_a_key(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["diff", config, "ranked.base", "--from=-1", "--to=0", "--format", "csv"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "project,start,end,base_rank,_row_kind,_multiplicity",
            "1,2024-03-01T00:00:00Z,2024-03-02T00:00:00Z,0,+I,1",
            "1,2024-03-02T00:00:00Z,,1,+I,1",
        ]

    def test_what_cannot_be_compared(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["diff", config, "ranked", "--from", "1", "--to", "0"]) == 2
        assert "epoch 1 is later than epoch 0: give the earlier one first" in capsys.readouterr().err
        assert main(["diff", config, "ranked", "--from", "7"]) == 1
        with pytest.raises(SystemExit) as usage:
            main(["diff", config, "ranked", "--from", "label:yesterday"])
        assert usage.value.code == 2
        assert "'yesterday' is not a label" in capsys.readouterr().err


class TestStatus:
    def test_its_watermark_is_a_label(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        (found,) = told(capsys, "status", config)
        assert found["watermark"] == SECOND_LABEL
        assert len(told(capsys, "show", config, "ranked", "--at", f"label:{found['watermark']}")) == 3

    @pytest.mark.usefixtures("parquet_backend")
    def test_no_watermark_is_null(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bring(tmp_path, "0.json", [(1, 11, "never")])
        (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=BACKEND))
        assert main(["run", str(tmp_path / "deploy.toml"), "--until-idle"]) == 0
        assert ", watermark -, " in capsys.readouterr().err
        (found,) = told(capsys, "status", str(tmp_path / "deploy.toml"))
        assert (found["epoch"], found["watermark"]) == (0, None)


class TestWaitFor:
    def test_the_publication_that_has_reached_it(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        (found,) = told(capsys, "wait-for", config, "ranked", "--watermark", "2024-03-03")
        assert (found["pipeline"], found["epoch"], found["watermark"]) == ("ranked", 1, SECOND_LABEL)

    def test_the_exit_code_tells_a_scheduler_to_come_again(
        self, config: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        late = ["--watermark", "2024-03-06T00:00:00Z", "--timeout", "10ms"]
        assert main(["wait-for", config, "ranked", *late]) == 3
        assert capsys.readouterr() == (
            "",
            "headwater: the watermark did not reach 2024-03-06T00:00:00Z within 10ms: epoch 1 of ranked has reached"
            f" {SECOND_LABEL}; is the pipeline running?\n",
        )
        assert main(["wait-for", config, "rankd", *late]) == 2

    def test_another_process_publishes(self, config: str, tmp_path: Path) -> None:
        """It waits for a run that is started only once it waits."""
        arguments = ["wait-for", config, "ranked", "--watermark", "2024-03-08", "--timeout", "60s"]
        registered = (
            f"import sys; sys.path[:0] = {sys.path!r}; from headwater.app.cli.main import main; sys.exit(main())"
        )
        command = [sys.executable, "-c", registered, *arguments, "--format", "jsonl"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
            bring(tmp_path, "2.json", [(1, 14, "2024-03-09T08:00:00Z")])
            assert main(["run", config, "--until-idle"]) == 0
            out, _ = waiting.communicate(timeout=60)
        assert waiting.returncode == 0
        assert json.loads(out)["epoch"] == 2


class TestLists:
    def test_versions_have_their_labels(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        labels = [(each["epoch"], each["label"]) for each in told(capsys, "versions", config, "ranked")]
        assert labels == [(1, SECOND_LABEL), (0, "2024-03-02T10:00:00.5Z")]

    def test_only_the_newest_are_listed(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert [each["epoch"] for each in told(capsys, "versions", config, "ranked", "--limit", "1")] == [1]
        whole = told(capsys, "explain-retention", config, "ranked")
        newest = {each["table"]: each for each in reversed(whole)}
        limited = told(capsys, "explain-retention", config, "ranked", "--limit", "1")
        assert len(limited) == len(newest) < len(whole)
        assert all(newest[each["table"]] == each for each in limited)

    def test_what_has_to_come_before_a_version_may_go(
        self, config: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=BACKEND + "retain = { versions = 2 }\n"))
        bring(tmp_path, "2.json", [(1, 14, "2024-03-09T08:00:00Z")])
        assert main(["run", config, "--until-idle"]) == 0
        capsys.readouterr()
        assert main(["explain-retention", config, "ranked", "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        published = [each["published"] for each in told(capsys, "versions", config, "ranked")]
        cells = [row for row in rows if row["table"] == "ranked.cells"]
        assert [(row["superseded"], row["state"], row["may_go"]) for row in cells[:3]] == [
            ("", "kept", "after 2 more publications"),
            (published[0], "kept", "after the next publication"),
            (published[1], "may go", ""),
        ]
