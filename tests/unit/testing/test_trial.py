"""The deployment of a trial: its settings are changed in the file, and errors name unknown names."""

from contextlib import ExitStack

import pytest

from headwater.domain.errors import ConfigError
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts


@pytest.fixture
def trial(tmp_path):
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(ranked_contracts())
        yield trial


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "pipelines.ranked.order_by",
            '"-signed"',
            lambda read: read.pipelines["ranked"].service.descending,
        ),
        ("pipelines.ranked.top", "3", lambda read: read.pipelines["ranked"].service.top == 3),
        ("run.retries", "7", lambda read: read.run.retries == 7),
        ("backend.compact_every", "2", lambda read: read.backend.compact_every == 2),
    ],
)
def test_a_setting_is_changed_added_or_begins_a_table(trial, key, value, told):
    assert not told(trial.deployment())
    trial.set(key, value)
    assert told(trial.deployment())


def test_a_table_within_a_table_gets_keys_though_only_others_of_it_have_a_head(trial):
    trial.set("sources.contracts.format", '"json"')
    for name in ("first", "second"):
        trial.set(f"sources.{name}", '{ kind = "files", path = "in", schema = "id bigint" }')
    assert set(trial.deployment().sources) == {"contracts", "first", "second"}


def test_a_setting_is_taken_out(trial):
    assert trial.deployment().sources["contracts"].event_time == "signed"
    trial.unset("sources.contracts.event_time")
    assert trial.deployment().sources["contracts"].event_time is None
    with pytest.raises(ConfigError, match=r"does not set sources.contracts.event_time"):
        trial.unset("sources.contracts.event_time")


NESTED = """
[pipelines.sums]
measures = { n = "count(*)", s = "sum(x)" }
group = [
  "a",
]
[pipelines.sums.past]
path = "past.parquet"
"""


@pytest.mark.parametrize("key", ["measures.n", "measures.m", "group", "past"])
@pytest.mark.parametrize("value", [None, '"count(x)"'])
def test_a_setting_that_is_not_on_a_line_of_its_own_is_refused(trial, key, value):
    """Another key of its line would be lost, and the scenario would test another deployment."""
    trial.deploy(NESTED)
    place = f"pipelines.sums.{key}"
    message = f"does not set {place}" if (key, value) == ("measures.m", None) else f"setting {place} cannot be changed"
    with pytest.raises(ConfigError, match=message):
        trial.unset(place) if value is None else trial.set(place, value)
    assert trial.file.read_text() == NESTED


def test_a_value_that_is_not_toml_is_told(trial):
    with pytest.raises(ConfigError, match=r"ranked\.top = three: the value is not valid TOML; a text needs quotes"):
        trial.set("pipelines.ranked.top", "three")


def test_a_scenario_needs_a_deployment(tmp_path):
    empty = Trial(tmp_path, "memory", ExitStack())
    for step in (empty.run, lambda: empty.set("run.retries", "7"), lambda: empty.unset("run.retries")):
        with pytest.raises(ConfigError, match="there is no deployment: begin the scenario with `Given the deployment"):
            step()


def test_a_setting_that_is_wrong_is_told_as_in_the_file(trial):
    trial.set("pipelines.ranked.metod", '"rank"')
    with pytest.raises(
        ConfigError, match=r"deploy.toml:\d+: pipelines.ranked.metod: unknown key.*did you mean 'method'"
    ):
        trial.run()


def test_names_that_are_wrong_are_told(trial):
    for feed in (trial.feed, trial.feed_table):
        with pytest.raises(ConfigError, match="no source 'contract'; it has: contracts"):
            feed("contract", [["project"]])
    with pytest.raises(ConfigError, match="there is no pipeline 'rank'"):
        trial.run(["rank"])
    with pytest.raises(ConfigError, match=r"keeps no table 'ranked.rows'; it keeps: ranked.dead_letters"):
        trial.stored("ranked.rows")


def test_the_backend_of_the_file_is_put_aside(trial):
    trial.deploy(ranked_contracts(backend='name = "delta"\npath = "lake"\ncompact_every = 3\n'))
    backend = trial.deployment().backend
    assert (backend.name, backend.compact_every) == ("memory", 3)
