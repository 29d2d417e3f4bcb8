"""The age of answers in the status of a deployment with a batch stage: the expected age next to the measured one."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from headwater import Headwater, Latency, Span
from headwater.app.cli.main import main
from headwater.app.config import load
from headwater.domain.errors import ConfigError, RetentionTooShort
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
STAGE = """
[pipelines.days]
service = "snapshots"
inputs = { ranked = "ranked.ranks" }
every = "15m"
[pipelines.days.tables]
days = "SELECT project, count(*) AS contracts FROM ranked GROUP BY project"
"""


def deployment(pipeline: str = "", stage: str = "") -> str:
    text = STAGE.replace('every = "15m"\n', f'every = "15m"\n{stage}')
    return ranked_contracts(run='poll = "10s"\n', pipeline=pipeline) + text


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        yield Trial(tmp_path, "memory", exits)


def bring(trial: Trial, *contracts: int) -> None:
    for contract in contracts:
        record = {"project": 1, "contract": contract, "signed": f"2024-03-{contract:02}T00:00:00Z"}
        trial.feed("contracts", [json.dumps(record)])


def latencies(headwater: Headwater) -> dict[str, Latency]:
    return {each.pipeline: each.latency for each in headwater.status()}


class TestExpected:
    def test_from_the_configuration_alone_before_anything_ran(self, trial: Trial) -> None:
        """c = 5 s, d = 10 s, b = 15 min, e = 2 min: from c + e to (c + d + c) + (b + e)."""
        trial.deploy(deployment('epoch_takes = "5s"\n', 'epoch_takes = "2m"\n'))
        assert latencies(trial.open()) == {
            "ranked": Latency(Span(5 * SECOND, 20 * SECOND), None),
            "days": Latency(Span(125 * SECOND, 20 * SECOND + 17 * MINUTE), None),
        }

    def test_it_cannot_be_told_before_anything_ran(self, trial: Trial) -> None:
        trial.deploy(deployment(stage='epoch_takes = "2m"\n'))
        assert latencies(trial.open()) == dict.fromkeys(("ranked", "days"), Latency(None, None))

    def test_what_is_not_configured_is_as_it_was_lately(self, trial: Trial) -> None:
        trial.deploy(deployment(stage='epoch_takes = "2m"\n'))
        bring(trial, 1, 2)
        trial.run()
        found = latencies(trial.open())
        took = found["ranked"].measured
        assert took is not None
        assert found["ranked"].expected == Span(took.least, 2 * took.most + 10 * SECOND)
        assert found["days"].expected == Span(took.least + 2 * MINUTE, 2 * took.most + 10 * SECOND + 17 * MINUTE)

    def test_pipelines_in_a_ring_are_refused(self, trial: Trial) -> None:
        other = STAGE.replace("pipelines.days", "pipelines.weeks").replace("ranked.ranks", "days.days")
        trial.deploy(deployment() + other)
        trial.open()
        trial.set("pipelines.days.inputs", '{ ranked = "weeks.days" }')
        with pytest.raises(ConfigError, match="so that none can publish first: days <- weeks <- days"):
            trial.open()


class TestMeasured:
    def test_from_when_an_epoch_of_the_input_began_to_the_version_that_has_it(self, trial: Trial) -> None:
        trial.deploy(deployment())
        bring(trial, 1)
        trial.run()
        assert latencies(trial.open())["days"].measured is None  # a version before is needed, to tell what was new
        bring(trial, 2, 3)
        trial.run()
        first, *_, last = (each for each in reversed(trial.publications("ranked")) if each.epoch.number > 0)
        version = trial.publications("days")[0].published_at
        assert first.began_at is not None
        assert last.began_at is not None
        measured = latencies(trial.open())["days"].measured
        assert measured == Span(version - last.began_at, version - first.began_at)
        assert measured.least < measured.most


class TestLongestQuery:
    def test_the_retention_must_carry_it(self, trial: Trial) -> None:
        trial.deploy(deployment(stage='retain = { versions = 5 }\nlongest_query = "75m"\n'))
        trial.open()
        trial.set("pipelines.days.longest_query", '"76m"')
        with pytest.raises(
            ConfigError, match=r"deploy\.toml:\d+: pipelines\.days: longest_query: a query of 1h16m"
        ) as no:
            trial.open()
        assert str(no.value).endswith(
            "with a version every 15m, retain keeps one for 1h15m (4 superseded besides the latest: (4 + 1) x 15m);"
            " set retain.versions to at least 6"
        )

    def test_without_a_retention_of_its_own_the_backends_counts(self, trial: Trial) -> None:
        trial.deploy(deployment(stage='longest_query = "76m"\n'))
        trial.open()
        trial.set("backend.retain", "{ versions = 2 }")
        with pytest.raises(ConfigError, match=r"set retain\.versions to at least 6"):
            trial.open()

    def test_by_the_watermark_only_a_duration_carries_it(self, trial: Trial) -> None:
        """A backlog makes versions faster than `every`, so that no number of them keeps one for a time."""
        stage = 'when = "watermark"\nretain = { versions = 5, duration = "75m" }\nlongest_query = "75m"\n'
        trial.deploy(deployment(stage=stage))
        trial.open()
        trial.set("pipelines.days.retain", "{ versions = 9 }")
        with pytest.raises(ConfigError, match=r"longest_query: .* set retain\.duration to at least 1h15m$"):
            trial.open()

    def test_a_read_is_told_by_the_schedule(self, trial: Trial) -> None:
        trial.deploy(deployment(stage="retain = { versions = 5 }\n"))
        bring(trial, 1)
        trial.run()
        reader = trial.open()
        assert reader.view("days", longest=74 * MINUTE).rows() == [(1, 1)]
        with pytest.raises(
            RetentionTooShort, match=r"a publication every 15m, configured; retain = \{ versions = 5 \}"
        ):
            reader.view("days", longest=76 * MINUTE)

    def test_by_the_watermark_a_read_is_told_by_the_last_versions(self, trial: Trial) -> None:
        trial.deploy(deployment(stage='when = "watermark"\nretain = { versions = 5 }\n'))
        for contract in (1, 2):
            bring(trial, contract)
            trial.run()
        with pytest.raises(RetentionTooShort, match=r"a publication every [0-9.]+s, recent average"):
            trial.open().view("days", longest=16 * MINUTE)

    def test_runs_until_idle_that_come_faster_than_the_schedule_are_believed(self, trial: Trial) -> None:
        trial.deploy(deployment(stage="retain = { versions = 5 }\n"))
        for contract in (1, 2):
            bring(trial, contract)
            trial.run()
        with pytest.raises(RetentionTooShort, match=r"a publication every [0-9.]+s, recent average"):
            trial.open().view("days", longest=16 * MINUTE)


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("", ["    any length: every version is kept"]),
        (
            'retain = { versions = 5, duration = "1h" }\n',
            [
                "    1h15m from the publication of its version; a new version comes every 15m,",
                '      retain = { versions = 5, duration = "1h" }',
            ],
        ),
        (
            'when = "watermark"\nretain = { versions = 5, duration = "1h" }\n',
            [
                "    1h from the publication of its version; new versions may come at any time,",
                '      retain = { versions = 5, duration = "1h" }',
            ],
        ),
    ],
)
def test_check_tells_how_long_a_query_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str, told: list[str]
) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(deployment(stage=stage))
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-len(told) - 1 :] == ["  longest query", *told]


def test_the_command_line_shows_both(tmp_path: Path, parquet_backend: None, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "deploy.toml"
    text = deployment('epoch_takes = "5s"\n', 'epoch_takes = "2m"\n')
    file.write_text(text.replace('name = "memory"', 'name = "parquet"\npath = "lake"'))
    assert load(file).pipelines["days"].epoch_takes == 2 * MINUTE
    assert main(["status", str(file), "--format", "jsonl"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["expected_latency"], each["measured_latency"]) for each in shown] == [
        ("5s to 20s", None),
        ("2m5s to 17m20s", None),
    ]
