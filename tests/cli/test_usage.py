"""Options of all commands, help, shell completion, and what a command imports."""

from __future__ import annotations

import json
import logging
import runpy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = timedelta(milliseconds=1)
"""Times of messages are cut to the millisecond."""


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    row = {"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}
    (tmp_path / "in" / "a.json").write_text(json.dumps(row))
    (tmp_path / "deploy.toml").write_text(ranked_contracts())
    return str(tmp_path / "deploy.toml")


@pytest.fixture
def _level() -> Iterator[None]:
    logger = logging.getLogger("headwater")
    before = logger.level
    yield
    logger.setLevel(before)


def usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    """The exit code of wrong usage or of help, and what was printed."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code, *capsys.readouterr()


def complete(shown: str) -> list[str]:
    """What bash is offered after some words."""
    words = shown.split(" ")
    environ = {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": shown, "COMP_CWORD": str(len(words) - 1)}
    script = (
        f"import os, sys; sys.path[:0] = {sys.path!r}; os.environ.update({environ!r});"
        " from headwater.app.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


class TestVerbosity:
    @pytest.mark.parametrize("arguments", [["-q", "run"], ["run", "--quiet"]], ids=" ".join)
    def test_quiet_prints_no_progress(
        self, config: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        assert main([*arguments, config, "--until-idle", "--show", "ranked", "--format", "csv"]) == 0
        assert capsys.readouterr() == ("project,contract,signed,rank\n1,11,2024-03-01T09:00:00Z,1\n", "")

    def test_quiet_prints_errors(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run", config, "rankd", "--quiet"]) == 2
        assert capsys.readouterr().err.startswith("headwater: there is no pipeline 'rankd'")

    @pytest.mark.usefixtures("_level")
    @pytest.mark.parametrize("arguments", [["-v", "run"], ["run", "--verbose"]], ids=" ".join)
    def test_verbose_says_where_an_error_comes_from(
        self, config: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        assert main([*arguments, config, "rankd"]) == 2
        first, *_, last = capsys.readouterr().err.splitlines()
        assert first == "Traceback (most recent call last):"
        assert last == "headwater: there is no pipeline 'rankd'; there are: ranked; did you mean 'ranked'?"
        assert logging.getLogger("headwater").isEnabledFor(logging.INFO)


class TestLogFormat:
    def test_json_has_a_time_a_level_and_the_numbers_of_an_epoch(
        self, config: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = datetime.now(UTC)
        assert main(["run", config, "--until-idle", "--log-format", "json"]) == 0
        (line,) = map(json.loads, capsys.readouterr().err.splitlines())
        assert before <= datetime.fromisoformat(line["time"]) + timedelta(milliseconds=1) <= datetime.now(UTC) + LATER
        assert (line["level"], line["event"], line["pipeline"], line["epoch"]) == ("info", "epoch", "ranked", 0)
        assert (line["rows"], line["dead_letters"], line["waiting"]) == (1, 0, "0 files")
        assert line["message"].startswith("ranked epoch 0: 1 rows in")
        assert "step" in line["seconds"]
        assert line["watermark"] == "2024-03-01T09:00:00Z"
        assert "task" not in line

    def test_errors_and_warnings_are_lines_too(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--log-format", "json", "run", config, "rankd"]) == 2
        (line,) = map(json.loads, capsys.readouterr().err.splitlines())
        assert (line["level"], set(line)) == ("error", {"time", "level", "message"})
        assert line["message"].startswith("headwater: there is no pipeline 'rankd'")
        assert main(["run", config, "rankd"]) == 2  # the next command chooses again
        assert capsys.readouterr().err.startswith("headwater: there is")


class TestArguments:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["{config}", "--until-idle", "--show", "ranked", "ranked.ranks"],
            ["{config}", "--until-idle", "--show", "ranked", "--show", "ranked.ranks"],
            ["--until-idle", "--show", "ranked", "ranked.ranks", "{config}"],
            ["--show", "ranked", "ranked.ranks", "{config}", "ranked", "--until-idle"],
            ["{config}", "ranked", "--until", "--sho=ranked", "--show=ranked.ranks"],
        ],
        ids=" ".join,
    )
    def test_show_is_repeated_or_has_several_values(
        self, config: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
    ) -> None:
        assert main(["run", *(each.format(config=config) for each in arguments), "--form", "csv"]) == 0
        answer = "project,contract,signed,rank\n1,11,2024-03-01T09:00:00Z,1\n"
        assert capsys.readouterr().out == answer * 2

    def test_an_option_cut_too_short_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = usage(["pin", "deploy.toml", "ranked", "--fo", "1h"], capsys)
        assert code == 2
        assert "No such option" in err


class TestHelp:
    def test_commands_are_in_sections(self, capsys: pytest.CaptureFixture[str]) -> None:
        for option in ("--help", "-h"):
            code, out, err = usage([option], capsys)
            assert (code, err) == (0, "")
            assert [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
                "Options:",
                "Run:",
                "Read:",
                "Look after:",
                "Keep versions:",
                "Write a configuration:",
            ]
            assert "  show               Print a view; by default the first one of a pipeline.\n" in out

    def test_a_command_names_its_arguments(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = usage(["run", "--help"], capsys)
        assert code == 0
        assert out.startswith("Usage: headwater run [OPTIONS] CONFIG [PIPELINE]...\n")
        for option in ("--until-idle", "--show PIPELINE[.VIEW]", "--format [table|jsonl|csv]", "--quiet", "--verbose"):
            assert option in out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-q"], "Missing command"),
            (["shw"], "No such command 'shw'"),
            (["show", "--limt", "3"], "No such option"),
            (["show", "deploy.toml"], "Missing argument"),
            (["show", "a", "b", "--format", "xml"], "'xml' is not one of 'table', 'jsonl', 'csv'"),
            (["show", "a", "b", "--at", "1", "--label", "2024-03-01"], "--at and --label both name the version"),
        ],
    )
    def test_wrong_usage(self, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
        code, out, err = usage(arguments, capsys)
        assert (code, out) == (2, "")
        command = " ".join(["headwater", *arguments[:1]]) if arguments[0] not in ("shw", "-q") else "headwater"
        assert err.startswith(f"Usage: {command} ")
        assert f"\n{command}: error: " in err
        assert message in err

    def test_no_command_prints_the_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert usage([], capsys) == usage(["--help"], capsys)


class TestCompletion:
    def test_commands_and_options(self) -> None:
        assert complete("headwater ex") == ["expire", "explain", "explain-retention"]
        assert complete("headwater show --re") == ["--read-optimized"]
        assert complete("headwater show deploy.toml ranked --format ") == ["table", "jsonl", "csv"]

    def test_the_script_for_a_shell(self) -> None:
        script = (
            "import os, sys; os.environ['_HEADWATER_COMPLETE'] = 'zsh_source';"
            " from headwater.app.cli.main import main; sys.exit(main())"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("#compdef headwater\n")


def test_a_run_on_memory_imports_neither_spark_nor_rich(config: str) -> None:
    script = (
        "import sys; from headwater.app.cli.main import main; code = main(sys.argv[1:]);"
        " print(code, sorted({'pyspark', 'py4j', 'delta', 'rich', 'confluent_kafka'} & set(sys.modules)))"
    )
    arguments = ["run", config, "--until-idle", "--show", "ranked", "--format", "csv"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_the_page_of_every_command_and_option_is_up_to_date() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "command_line_page.py"))
    assert script["PAGE"].read_text() == script["page"](), "run make docs"
