"""Bad input, bad configuration and missing or broken surroundings, as a user of the command line meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from attrs import field, frozen

from headwater.app.cli.main import main
from tests.configurations import FILES, on_backend, ranked_contracts
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

GOOD = '{"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}'
TABLES = ranked_contracts(run='retries = 1\nretry_wait = "10ms"\n', source=f'{FILES}format = "json"\n')


@frozen
class Outcome:
    """What a command left behind: its exit code, and what it wrote."""

    code: int
    out: str
    err: str = field(repr=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output, which holds JSON lines and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]


@frozen
class Deployment:
    """A folder with a configuration and a landing place for files."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def config(self) -> Path:
        return self.folder / "deploy.toml"

    def configure(self, old: str, new: str) -> None:
        """Change the configuration in one place."""
        assert self.config.read_text().count(old) == 1
        self.config.write_text(self.config.read_text().replace(old, new))

    def file(self, name: str) -> Path:
        """Where a file of the source lands."""
        return self.folder / "in" / name

    def run(self, *show: str) -> Outcome:
        """Run until idle, and show views as JSON lines."""
        self.capsys.readouterr()
        shown = ["--show", *show] if show else []
        code = main(["run", str(self.config), "--until-idle", *shown, "--format", "jsonl"])
        outcome = Outcome(code, *self.capsys.readouterr())
        assert "Traceback" not in outcome.err
        return outcome

    def refuses(self, code: int, *phrases: str) -> None:
        """A run ends with a code and one message that says these things, and answers nothing."""
        outcome = self.run("ranked")
        assert (outcome.code, outcome.out) == (code, "")
        message = outcome.err.splitlines()[-1]
        assert message.startswith("headwater: ")
        for phrase in phrases:
            assert phrase in message


@pytest.fixture
def deployment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Deployment:
    (tmp_path / "in").mkdir()
    (tmp_path / "deploy.toml").write_text(TABLES)
    return Deployment(tmp_path, capsys)


class TestDeadLetters:
    """Rows that cannot be used are kept, with the reason; all others are ranked."""

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            ('{"project": 1, "contract": 12, "signed"', "not JSON: "),
            (
                "[1, 12]",
                "a JSON object wanted, not [1, 12]; write one whole object a line; if the file is one array, set layout",
            ),
            ("[", "not JSON: a line of a longer document; write one whole object a line"),
            ('"project": 1,', "not JSON: a line of a longer document; write one whole object a line"),
            (
                '{"project": "one", "contract": 12, "signed": "2024-03-01T09:00:00Z"}',
                "column 'project': bigint wanted, not 'one'",
            ),
            (
                '{"project": 1, "contract": 12, "signed": "2024-02-30T09:00:00Z"}',
                "column 'signed': timestamp wanted, not '2024-02-30T09:00:00Z' (no such time)",
            ),
            ('{"project": null, "contract": 12, "signed": "2024-03-01T09:00:00Z"}', "group column project is null"),
            ('{"project": 1, "signed": "2024-03-01T09:00:00Z"}', "id column contract is null"),
        ],
    )
    def test_a_record_of_json(self, deployment: Deployment, bad: str, reason: str) -> None:
        deployment.file("a.json").write_text(f"{GOOD}\n{bad}\n")
        done = deployment.run("ranked.dead_letters", "ranked.ranks")
        letter, ranked = done.rows
        assert done.code == 0
        assert letter["reason"].startswith(reason)
        assert (letter["epoch"], letter["origin"], letter["raw"]) == (0, "a.json", bad)
        assert ranked == json.loads(GOOD) | {"rank": 1}
        assert "2 rows in (1 to the dead letters)" in done.err

    def test_a_record_of_csv(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"csv"')
        rows = ["project,contract,signed", "1,11,2024-03-01T09:00:00Z", "1,12", "1,x,2024-03-01T09:00:00Z"]
        deployment.file("a.csv").write_text("\n".join(rows) + "\n")
        done = deployment.run("ranked.dead_letters")
        assert done.code == 0
        assert sorted(letter["reason"] for letter in done.rows) == [
            "3 fields wanted, as in the header, not 2",
            "column 'contract': bigint wanted, not 'x'",
        ]


class TestFilesWithoutUse:
    def test_another_delimiter_is_named_and_taken(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"csv"')
        deployment.file("a.csv").write_text('project;contract;signed\n1;"1""1";2024-03-01T09:00:00Z\n1;12;2024-03-02\n')
        deployment.refuses(
            1,
            f"{deployment.config}:6: sources.contracts (pipeline ranked): file a.csv: column 'project' is missing",
            "its fields seem to be separated by ';': set delimiter = \";\"",
        )
        deployment.configure('"csv"', '"csv"\ndelimiter = ";"')
        deployment.file("a.csv").write_text('project;contract;signed\n1;"11";2024-03-01T09:00:00Z\n')
        assert [row["contract"] for row in deployment.run("ranked").rows] == [11]

    def test_another_way_of_writing_csv_is_taken(self, deployment: Deployment) -> None:
        how = ['quote = "\'"', 'escape = "\\\\"', "header = false", 'null_value = ["NULL", ""]', 'comment = "#"']
        deployment.configure('"json"', "\n".join(['"csv"', *how]))
        deployment.file("a.csv").write_text("# of March\n1,'11',2024-03-01T09:00:00Z\n1,12,NULL\n")
        assert [(row["contract"], row["signed"]) for row in deployment.run("ranked").rows] == [
            (11, "2024-03-01T09:00:00Z"),
            (12, None),
        ]

    def test_a_column_missing_from_the_header(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"csv"')
        deployment.file("a.csv").write_text("project,signed\n1,2024-03-01T09:00:00Z\n")
        deployment.refuses(
            1,
            "file a.csv: column 'contract' is missing from the header, which has: project, signed; if the first line is"
            " a row, write the names above it; a source of files may set header = false",
        )

    def test_a_column_missing_from_parquet(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"parquet"')
        pl.DataFrame({"project": [1], "contract": [11]}).write_parquet(deployment.file("a.parquet"))
        deployment.refuses(1, "file a.parquet: column 'signed' is missing; it has: project, contract")

    def test_a_type_that_does_not_fit_in_parquet(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"parquet"')
        pl.DataFrame({"project": [1.5], "contract": [11], "signed": [None]}).write_parquet(deployment.file("a.parquet"))
        deployment.refuses(1, "column 'project' is double, which bigint cannot hold without loss; allowed: tinyint")

    def test_no_parquet_at_all(self, deployment: Deployment) -> None:
        deployment.configure('"json"', '"parquet"')
        deployment.file("a.parquet").write_text(GOOD)
        deployment.refuses(1, "file a.parquet is not Parquet: ", "; replace it")


class TestConfiguration:
    @pytest.mark.parametrize(
        ("old", "new", "place", "message"),
        [
            ("order_by", "oder_by", ":17: pipelines.ranked.oder_by: unknown key", "; did you mean 'order_by'?"),
            ('"memory"', '"memroy"', ":2: backend.name", "did you mean 'memory'?"),
            (
                '"memory"',
                '"delta"\npath = "deploy.toml/lake"',
                ":3: backend.path",
                "deploy.toml is a file; name a folder",
            ),
            ('"memory"', '"delta"', ":1: backend.path", "is missing; backend delta needs a folder for its tables"),
            ('["project"]', '["projekt"]', ":15: pipelines.ranked.group", "no such column: 'projekt'"),
            (
                "signed timestamp",
                "signed tiemstamp",
                ":10: sources.contracts.schema",
                "unknown column type 'tiemstamp'",
            ),
            (
                'order_by = "signed"',
                'order_by = "signed"\nsegment = 86400',
                ":18: pipelines.ranked.segment",
                "'86400' is not a duration; ",
            ),
            (
                'order_by = "signed"',
                'order_by = "signed"\nsegment = "1 month"',
                ":18: pipelines.ranked.segment",
                "months and years differ in length, so write days, such as '30d'",
            ),
            ('"in"', '"s3a://bucket/in"', ":8: sources.contracts.path", "is not a local folder"),
            ('"in"', '"file://data/in"', ":8: sources.contracts.path", "names the host 'data'; write file:///data/in"),
            (
                'format = "json"',
                'format = "csv"\ndelimiter = ";;"',
                ":10: sources.contracts.delimiter",
                "delimiter ';;' must be one ASCII character",
            ),
            (
                'format = "json"',
                'format = "json"\nquote = ""',
                ":10: sources.contracts.quote",
                "quote is for format csv; json has none",
            ),
            (
                'format = "json"',
                'format = "parquet"\nlayout = "array"',
                ":10: sources.contracts.layout: ",
                "layout is for JSON; parquet has none",
            ),
            (
                "[run]",
                "[runs]",
                ":3: runs",
                "unknown table; allowed: alerts, backend, pipelines, run, sources, telemetry; did you mean 'run'?",
            ),
        ],
    )
    def test_a_mistake_is_told_with_its_line(
        self, deployment: Deployment, old: str, new: str, place: str, message: str
    ) -> None:
        deployment.configure(old, new)
        deployment.refuses(2, f"{deployment.config}{place}", message)

    def test_a_source_folder_that_is_not_there(self, deployment: Deployment) -> None:
        deployment.configure('"in"', '"inn"')
        deployment.refuses(
            2,
            f"{deployment.config}:6: sources.contracts (pipeline ranked): {deployment.folder / 'inn'} is not a directory;"
            " create it, or correct the path",
        )

    @pytest.mark.usefixtures("parquet_backend")
    def test_a_source_folder_that_goes_away_between_two_runs(self, deployment: Deployment) -> None:
        deployment.configure('name = "memory"', 'name = "parquet"\npath = "lake"')
        deployment.file("a.json").write_text(GOOD + "\n")
        assert deployment.run("ranked").code == 0
        (deployment.folder / "in").rename(deployment.folder / "away")
        deployment.refuses(1, f"{deployment.folder / 'in'} is not a directory now, though files of it have been read")

    def test_file_uris_are_paths(self, deployment: Deployment) -> None:
        (deployment.folder / "my in").mkdir()
        (deployment.folder / "my in" / "a.json").write_text(GOOD + "\n")
        deployment.configure('"in"', f'"file://{deployment.folder}/my%20in"')
        assert len(deployment.run("ranked").rows) == 1

    def test_show_may_stand_before_the_file_and_be_repeated(self, deployment: Deployment) -> None:
        deployment.file("a.json").write_text(GOOD + "\n")
        config = str(deployment.config)
        for arguments in (["--show", "ranked", config], ["--show", "ranked", "--show", "ranked.top", config, "ranked"]):
            assert main(["run", "--until-idle", "--format", "jsonl", *arguments]) == 0
            assert '"contract":11' in deployment.capsys.readouterr().out.replace(" ", "")
        assert main(["run", "--until-idle", "--show", "ranked"]) == 2
        assert "the deployment's TOML file is missing" in deployment.capsys.readouterr().err


class TestTheWorldOutside:
    @pytest.mark.parametrize(
        "backend",
        [pytest.param("delta", marks=pytest.mark.delta), pytest.param("hudi-mor", marks=pytest.mark.hudi)],
    )
    @pytest.mark.usefixtures("spark")
    def test_a_path_that_cannot_be_written(self, deployment: Deployment, backend: str) -> None:
        deployment.file("a.json").write_text(GOOD + "\n")
        deployment.configure('name = "memory"', on_backend(backend, "/proc/lake"))
        deployment.refuses(1, "/proc/lake", "cannot be reached or written: ")

    @pytest.mark.parametrize(
        "backend",
        [
            pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.core]),
            pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.core]),
        ],
    )
    @pytest.mark.usefixtures("spark")
    def test_a_store_whose_package_is_not_there(self, deployment: Deployment, backend: str) -> None:
        deployment.file("a.json").write_text(GOOD + "\n")
        deployment.configure('name = "memory"', f'name = "{backend}"\npath = "s3a://bucket/lake"')
        deployment.refuses(
            1,
            "the Spark session has no file system for s3a://bucket/lake",
            '"spark.jars.packages" = "org.apache.hadoop:hadoop-aws:3.3.4" under [backend.spark]',
        )

    @pytest.mark.delta
    @pytest.mark.core
    @pytest.mark.usefixtures("spark")
    def test_a_lake_given_as_a_file_uri(self, deployment: Deployment) -> None:
        deployment.file("a.json").write_text(GOOD + "\n")
        deployment.configure('name = "memory"', f'name = "delta"\npath = "file://{deployment.folder}/lake"')
        assert len(deployment.run("ranked").rows) == 1
        assert (deployment.folder / "lake" / "ranked").is_dir()

    def test_a_broker_that_is_down(self, deployment: Deployment) -> None:
        port = free_port()
        deployment.configure(
            'kind = "files"\npath = "in"\n',
            f'kind = "kafka"\nservers = "127.0.0.1:{port}"\ntopics = ["contracts"]\n',
        )
        deployment.refuses(1, f"Kafka at 127.0.0.1:{port} cannot be read just now", "is the broker up")


@pytest.mark.parametrize("command", [["run", "--until-idle"], ["show", "ranked"], ["status"], ["check"]], ids=" ".join)
def test_a_working_directory_that_was_removed_is_told(
    deployment: Deployment, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = deployment.folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for config in (str(deployment.config), "../deploy.toml"):
        assert main([command[0], config, *command[1:]]) == 2
        assert deployment.capsys.readouterr().err == (
            "headwater: the working directory was removed; change to another one\n"
        )


def _run_in_ascii(config: str) -> tuple[int, str]:
    """The exit code of a run in a process that reads file names as ASCII, and the last line of its messages."""
    command = [sys.executable, "-m", "headwater", "run", config, "--until-idle"]
    environ = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()[-1]


def test_names_that_are_not_ascii_need_a_process_that_reads_them(deployment: Deployment) -> None:
    remedy = "is not ASCII, and this process reads file names as ascii, not as UTF-8: start it with LC_ALL=C.UTF-8"
    deployment.file("1.json").write_text(GOOD)
    assert _run_in_ascii(str(deployment.config))[0] == 0
    deployment.file("2ü.json").write_text(GOOD)
    code, told = _run_in_ascii(str(deployment.config))
    assert (code, "the name of file '2\\udcc3\\udcbc.json' " + remedy in told) == (2, True), told
    deployment.configure('path = "in"', 'path = "inü"')
    code, told = _run_in_ascii(str(deployment.config))
    assert (code, "deploy.toml:8: sources.contracts.path: " in told, remedy in told) == (2, True, True), told
    deployment.configure('path = "inü"', 'path = "in"')
    above = deployment.folder / "ö"
    above.mkdir()
    (above / "in").mkdir()
    (above / "deploy.toml").write_text(TABLES)
    code, told = _run_in_ascii(str(above / "deploy.toml"))
    assert (code, remedy in told) == (2, True), told
