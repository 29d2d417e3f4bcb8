"""The command line and the Python API over the memory backend, as a user meets them."""

import errno
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

import headwater
from headwater import Headwater
from headwater.app.cli.main import main
from headwater.app.config import load
from headwater.domain.errors import ConfigError, HeadwaterError, VersionNotFound
from tests.configurations import ranked_contracts

CONFIG = ranked_contracts(run='poll = "1h"\n', pipeline='materialize = ["ranks"]\n')
FIRST = [(1, 11, "2024-03-01T09:00:00Z"), (1, 12, "2024-03-02T09:00:00.5Z")]
LATE = [(1, 13, "2024-03-01T08:00:00Z")]


def line(project, contract, signed, **more):
    return {"project": project, "contract": contract, "signed": signed} | more


@pytest.fixture
def config(tmp_path):
    (tmp_path / "in").mkdir()
    for name, records in (("a", FIRST), ("b", LATE)):
        text = "".join(json.dumps(line(*record)) + "\n" for record in records)
        (tmp_path / "in" / f"{name}.json").write_text(text)
    file = tmp_path / "deploy.toml"
    file.write_text(CONFIG)
    return str(file)


@pytest.fixture
def kept(config, tmp_path, parquet_backend):
    """A deployment whose tables outlive their process."""
    (tmp_path / "deploy.toml").write_text(CONFIG.replace('name = "memory"', 'name = "parquet"\npath = "lake"'))
    return config


@pytest.fixture
def ran(config):
    with Headwater.from_config(config) as deployment:
        deployment.run(until_idle=True)
        yield deployment


def headwater_process(*arguments, **options):
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


class TestRun:
    def test_prints_views_as_jsonl_and_nothing_else(self, config, capsys):
        assert main(["run", config, "--until-idle", "--show", "ranked", "--format", "jsonl"]) == 0
        out, err = capsys.readouterr()
        assert [json.loads(row) for row in out.splitlines()] == [
            line(1, 13, "2024-03-01T08:00:00Z", rank=1),
            line(1, 11, "2024-03-01T09:00:00Z", rank=2),
            line(1, 12, "2024-03-02T09:00:00.5Z", rank=3),
        ]
        assert list(json.loads(out.splitlines()[0])) == ["project", "contract", "signed", "rank"]
        assert err.splitlines()[1].startswith("ranked epoch 1: 1 rows in, ")
        assert "watermark 2024-03-02T09:00:00.5Z, 0 files waiting" in err

    def test_a_source_that_a_program_feeds_is_told(self, config, capsys):
        text = CONFIG.replace('kind = "files"\npath = "in"\n', 'kind = "stream"\n').replace('poll = "1h"\n', "")
        Path(config).write_text(text)
        assert main(["run", config, "--until-idle"]) == 0
        assert """ranked: source 'contracts' is of kind "stream": a Python program hands""" in capsys.readouterr().err

    def test_a_folder_of_tables_that_cannot_be_listed(self, kept, capsys, monkeypatch):
        Path(kept).write_text(CONFIG.replace('name = "memory"', 'name = "delta"\nengine = "local"\npath = "lake"'))
        (lake := Path(kept).with_name("lake")).mkdir()

        def refuse(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))

        monkeypatch.setattr(Path, "iterdir", refuse)
        assert main(["run", kept, "--until-idle"]) != 0
        told = f"headwater: backend.path: cannot read {lake}: Permission denied; check the disk, and who may read"
        assert capsys.readouterr().err.splitlines() == [told]

    def test_shows_several_views_under_their_names(self, config, capsys):
        assert main(["run", config, "ranked", "--until-idle", "--show", "ranked.top", "ranked.dead_letters"]) == 0
        out = capsys.readouterr().out.splitlines()
        assert [row for row in out if row.endswith(":")] == ["ranked.top:", "ranked.dead_letters:"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["ranke", "--until-idle"], "there is no pipeline 'ranke'; there are: ranked; did you mean 'ranked'?"),
            (["--show", "ranked"], "--show prints views when the run has ended: add --until-idle"),
            (
                ["--until-idle", "--show", "ranked.tip"],
                "pipeline 'ranked' has no view 'tip'; there are: base, cells, changes, dead_letters, ranked, ranks,"
                " top; did you mean 'top'?",
            ),
            (
                ["--until-idle", "--show", "ranked."],
                "pipeline 'ranked' has no view ''; there are: base, cells, changes, dead_letters, ranked, ranks, top",
            ),
        ],
    )
    def test_a_wrong_name_is_told_before_anything_runs(self, config, capsys, arguments, message):
        assert main(["run", config, *arguments]) == 2
        assert capsys.readouterr() == ("", f"headwater: {message}\n")

    def test_a_configuration_error_is_one_message(self, config, tmp_path, capsys):
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('"ranking"', '"rankin"'))
        assert main(["run", config]) == 2
        assert capsys.readouterr().err == (
            f"headwater: {config}:11: pipelines.ranked.service: 'rankin' is unknown; allowed: ranking, retraction,"
            " cumulate, wide_table, snapshots, bulk_merge, materialized_view; did you mean 'ranking'?\n"
        )

    def test_a_run_that_fails_exits_with_1(self, config, tmp_path, capsys):
        (tmp_path / "in" / "b.json").unlink()
        (tmp_path / "in" / "a.json").rename(tmp_path / "in" / "a.parquet")
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('"in"', '"in"\nformat = "parquet"'))
        assert main(["run", config, "--until-idle"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "a.parquet" in err
        assert "Traceback" not in err

    @pytest.mark.parametrize(("debug", "shown"), [("1", True), ("0", False)])
    def test_debug_also_shows_where_an_error_came_from(self, config, monkeypatch, capsys, debug, shown):
        monkeypatch.setenv("HEADWATER_DEBUG", debug)
        assert main(["run", config, "nothing"]) == 2
        err = capsys.readouterr().err
        assert ("Traceback" in err) == shown
        assert err.splitlines()[-1].startswith("headwater: there is no pipeline 'nothing'")

    def test_an_interrupt_is_no_traceback(self, config, monkeypatch, capsys):
        def interrupt(*_arguments, **_options):
            raise KeyboardInterrupt

        monkeypatch.setattr(Headwater, "run", interrupt)
        assert main(["run", config]) == 130
        assert capsys.readouterr().err == "headwater: interrupted\n"

    @pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, "closed"), OSError(errno.ENOSPC, "full"), None])
    def test_messages_that_nobody_reads_do_not_end_the_run(self, kept, monkeypatch, error):
        closed = error and Mock(write=Mock(side_effect=error), isatty=lambda: False, encoding="utf-8", errors="strict")
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", closed)
            assert main(["run", kept, "--until-idle"]) == 0
        with Headwater.from_config(kept) as deployment:
            assert deployment.view("ranked").height == 3

    def test_a_pipeline_without_a_name_is_not_all_of_them(self, kept, capsys):
        for command in (["expire", kept, "", "--apply"], ["compact", kept, ""]):
            assert main(command) == 2
            assert "there is no pipeline ''" in capsys.readouterr().err

    def test_a_run_after_a_stop_is_refused(self, config):
        reports = []

        def stop(report):
            reports.append(report)
            deployment.stop()

        with Headwater.from_config(config, report=stop) as deployment:
            deployment.run(until_idle=True)
            assert len(reports) == 1
            with pytest.raises(ConfigError, match="was asked to stop, and its run has ended; open another one"):
                deployment.run(until_idle=True)

    def test_work_after_the_close_is_refused(self, config):
        with Headwater.from_config(config) as deployment:
            deployment.run(until_idle=True)
        deployment.close()
        for work in (deployment.run, deployment.status, lambda: deployment.view("ranked")):
            with pytest.raises(ConfigError, match="this Headwater is closed; open another one"):
                work()

    def test_a_stop_before_the_run_ends_it_at_once(self, config):
        with Headwater.from_config(config) as deployment:
            deployment.stop()
            deployment.run()
            assert deployment.view("ranked").height == 0

    @pytest.mark.parametrize("given", ["ranked", "", 5, True])
    def test_pipelines_are_a_list_of_names(self, config, given):
        with Headwater.from_config(config) as deployment, pytest.raises(ConfigError, match="not a list of names"):
            deployment.run(given, until_idle=True)

    def test_a_home_folder_is_not_guessed(self, tmp_path, config, capsys):
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('path = "in"', 'path = "~/in"'))
        assert main(["check", config]) == 2
        assert "'~/in': ~ is not replaced here; write the whole path" in capsys.readouterr().err

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_the_run_after_the_epoch_under_way(self, config, number):
        with headwater_process("run", config) as process:
            for _ in range(2):
                process.stderr.readline()  # an epoch each; the source is drained then, and the run waits
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, "")
        assert err == "headwater: stopping after this epoch; send the signal again to stop immediately\n"

    def test_a_reader_that_has_seen_enough_is_no_failure(self, config):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "headwater", "run", config, "--until-idle", "--show", "ranked"]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        assert done.returncode == 0
        assert "BrokenPipe" not in done.stderr

    def test_another_pipe_that_broke_is_a_failure(self, config, monkeypatch):
        monkeypatch.setattr(Headwater, "run", Mock(side_effect=BrokenPipeError(errno.EPIPE, "closed")))
        with Path(os.devnull).open("w") as output:
            monkeypatch.setattr(sys, "stdout", output)
            with pytest.raises(BrokenPipeError):
                main(["run", config, "--until-idle"])

    @pytest.mark.parametrize("arguments", [["run", "--until-idle", "--show", "ranked"], ["check"]])
    def test_an_output_that_is_full_is_told(self, config, tmp_path, arguments):
        records = "".join(json.dumps(line(2, number, "2024-03-01T09:00:00Z")) + "\n" for number in range(1000))
        (tmp_path / "in" / "a.json").write_text(records)
        command = [sys.executable, "-m", "headwater", arguments[0], config, *arguments[1:]]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.endswith("headwater: cannot write the output: No space left on device\n")
        assert "Traceback" not in done.stderr

    def test_an_option_without_its_value_at_the_end(self, config, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["run", config, "--until-idle", "--show"])
        assert ended.value.code == 2
        assert capsys.readouterr().err == "headwater: error: Option '--show' requires an argument.\n"


class TestOtherCommands:
    def test_version(self, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"headwater {version('headwater')}\n"
        assert headwater.__version__ == version("headwater")

    def test_usage_errors_exit_with_2(self):
        with pytest.raises(SystemExit) as ended:
            main(["show"])
        assert ended.value.code == 2

    @pytest.mark.parametrize(
        "option",
        [
            ["--at", "yesterday"],
            ["--as-of", "12"],
            ["--limit", "-1"],
            ["--longest", "99999999999d"],
            ["--longest", "soon"],
        ],
    )
    def test_a_malformed_option_exits_with_2(self, config, option, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["show", config, "ranked", *option])
        assert ended.value.code == 2
        assert repr(option[1]) in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("command", "option"),
        [("show", "--limit"), ("diff", "--limit"), ("plot", "--groups"), ("bootstrap", "--files-per-chunk")],
    )
    def test_a_number_that_is_none_names_its_option(self, config, capsys, command, option):
        large = "is too large: at most 2147483647"
        less, other = "is negative; give a whole number from 0 on, such as 10", "is not a whole number, such as 10"
        for number, told in ("9" * 20, large), ("2147483648", large), ("'-1'", less), ("'many'", other):
            with pytest.raises(SystemExit) as ended:
                main([command, config, "ranked", option, number.strip("'")])
            assert ended.value.code == 2
            assert (
                f"headwater {command}: error: Invalid value for '{option}': {number} {told}\n"
                in capsys.readouterr().err
            )

    def test_show_of_what_was_never_published(self, kept, capsys):
        assert main(["show", kept, "ranked", "--at", "3"]) == 1
        assert capsys.readouterr().err == "headwater: pipeline 'ranked' has no epoch 3; none is published yet\n"

    def test_show_before_the_first_epoch_has_no_rows(self, kept, capsys):
        assert main(["show", kept, "ranked", "--format", "csv", "--limit", "5"]) == 0
        out, err = capsys.readouterr()
        assert out == "project,contract,signed,rank\n"
        assert err == "headwater: nothing is published yet: run it first\n"

    def test_status(self, kept, capsys):
        assert main(["status", kept, "--format", "jsonl"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "pipeline": "ranked",
            "epoch": None,
            "published": None,
            "watermark": None,
            "waiting": "2 files",
            "dead_letters": None,
            "repeats": None,
            "expected_latency": None,
            "measured_latency": None,
            "tables": None,
            "bookkeeping": None,
            "alarms": None,
        }

    def test_check_explains_and_starts_nothing(self, config, tmp_path, capsys):
        pytest.importorskip("pyspark", reason="the extra delta is not installed")
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('name = "memory"', 'name = "delta"\npath = "lake"'))
        assert main(["check", config]) == 0
        out = capsys.readouterr().out
        assert out.startswith(
            "The configuration is good: 1 pipeline on backend delta.\n\nranked, from source contracts\n"
        )
        assert "key _segment, contract; partitioned by _segment" in out
        assert "project, contract, signed, rank; also kept as table ranked.ranks\n" in out
        assert not (tmp_path / "lake").exists()

    def test_check_explains_what_is_published(self, config, tmp_path, capsys):
        pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
        publish = '[pipelines.ranked.publish]\nservers = "127.0.0.1:1"\ntopic = "ranks"\nformat = "upsert-json"\n'
        (tmp_path / "deploy.toml").write_text(CONFIG + publish)
        assert main(["check", config]) == 0
        published = "  publishes\n    the changes of ranked.ranks as upsert-json, to Kafka topic ranks\n"
        assert capsys.readouterr().out.endswith(published)

    def test_check_tells_a_view_that_cannot_be_kept(self, config, tmp_path, capsys):
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('["ranks"]', '["base"]'))
        assert main(["check", config]) == 2
        assert capsys.readouterr().err == (
            f"headwater: {config}:16: pipelines.ranked.materialize: 'base' is not a view that can be kept; possible:"
            " ranks, top\n"
        )

    def test_no_engine_is_imported_before_it_is_chosen(self, config):
        script = (
            "import sys; from headwater.app.cli.main import main; code = main(['check', sys.argv[1]]);"
            " sys.exit(code or int(bool({'pyspark', 'confluent_kafka', 'duckdb'} & set(sys.modules))))"
        )
        done = subprocess.run([sys.executable, "-c", script, config], capture_output=True, check=False)
        assert done.returncode == 0

    def test_the_allocators_are_told_before_they_are_imported(self, config):
        script = (
            "import os, sys; from headwater.app.cli.main import main; there = {'polars', 'pyarrow'} & set(sys.modules);"
            " code = main(['check', sys.argv[1]]); import pyarrow;"
            " found = [os.environ['_RJEM_MALLOC_CONF'], pyarrow.default_memory_pool().backend_name];"
            " told = zip(found, sys.argv[2:], strict=True);"
            " sys.exit(code or bool(there) or not all(name.endswith(end) for name, end in told))"  # Polars adds its own
        )
        own = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:1", "ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
        plain = {name: value for name, value in os.environ.items() if name not in own}
        arenas = max(1, (os.cpu_count() or 1) // 2)
        for environment, expected in (
            ({}, [f"dirty_decay_ms:10000,muzzy_decay_ms:10000,narenas:{arenas}", "system"]),
            (own, own.values()),
        ):
            command = [sys.executable, "-c", script, config, *expected]
            done = subprocess.run(command, env=plain | environment, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")


class TestApi:
    def test_views_are_the_engines_own_frames(self, ran):
        ranks = ran.view("ranked.ranks").sort("rank")
        assert type(ranks).__module__.startswith("polars")
        assert ranks["contract"].to_list() == [13, 11, 12]

    def test_a_view_as_known_at_an_epoch_or_a_time(self, ran):
        known = ran.snapshot("ranked", 0).publication
        assert ran.view("ranked", at=0).height == 2
        assert ran.view("ranked", at=known.published_at).height == 2
        assert ran.view("ranked", at=-1).height == 0
        with pytest.raises(VersionNotFound):
            ran.view("ranked", at=datetime(2000, 1, 1, tzinfo=UTC))

    def test_a_view_as_of_an_event_time(self, ran):
        assert ran.view("ranked", as_of=datetime(2024, 3, 1, 8, 30, tzinfo=UTC))["contract"].to_list() == [13]

    def test_changes_between_epochs(self, ran):
        moved = ran.changes("ranked", after=0, until=1).sort("new_rank")
        assert moved.select("row_kind", "contract", "old_rank", "new_rank").rows() == [
            ("+I", 13, None, 1),
            ("+U", 11, 1, 2),
            ("+U", 12, 2, 3),
        ]
        assert ran.changes("ranked", after=-1).height == 3
        with pytest.raises(ConfigError, match="epoch 1 is later than epoch 0: give the earlier one first"):
            ran.changes("ranked", after=1, until=0)

    def test_a_stored_table_can_be_asked_for(self, ran):
        assert ran.view("ranked.dead_letters").height == 0
        for how in ({"as_of": datetime(2024, 3, 1, tzinfo=UTC)}, {"since": 0}):
            with pytest.raises(ConfigError, match=r"ranked\.dead_letters is a table"):
                ran.view("ranked.dead_letters", **how)
        with pytest.raises(ConfigError, match="'ranks' is read at one epoch"):
            ran.view("ranked", since=0)

    def test_status_tells_the_newest_publication(self, ran):
        (status,) = ran.status()
        assert (status.publication.epoch.number, status.lag, status.dead_letters) == (1, "0 files", 0)
        assert ran.epoch("ranked") == 1

    def test_a_program_prints_the_status_as_the_command_does(self, kept, capsys):
        assert main(["run", kept, "--until-idle"]) == 0
        assert main(["status", kept]) == 0
        with Headwater.from_config(kept) as deployment:
            assert capsys.readouterr().out == f"{deployment.status()}\n"

    def test_status_goes_on_where_a_source_cannot_be_read(self, config, tmp_path):
        (tmp_path / "deploy.toml").write_text(CONFIG.replace('"in"', '"nowhere"'))
        with Headwater.from_config(config) as deployment:
            assert deployment.status()[0].lag.startswith("unknown: ")

    def test_a_deployment_made_in_code(self, config):
        with Headwater(load(config, {})) as deployment:
            deployment.run(["ranked"], until_idle=True)
            assert deployment.epoch("ranked") == 1

    def test_an_unknown_pipeline(self, ran):
        with pytest.raises(HeadwaterError, match="there is no pipeline 'other'; there are: ranked"):
            ran.run(["other"], until_idle=True)
