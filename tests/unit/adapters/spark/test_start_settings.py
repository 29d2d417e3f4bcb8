"""Which Spark settings have priority; nothing here starts Spark."""

from __future__ import annotations

import os
import socket
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.spark import start_settings, workers
from headwater.adapters.spark.java_locale import JAVA_OPTIONS, LOCALE_OPTIONS
from headwater.adapters.spark.master import address_towards, check_answers, is_local, is_one_process
from headwater.adapters.spark.start_settings import Wanted, given_before_launch, parse_properties
from headwater.domain.errors import ClusterUnavailable

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = {"spark.master": "local[*]", "spark.ui.enabled": "false"}
UTC = {"spark.sql.session.timeZone": "UTC"}
HOSTS = {"spark.driver.host", "spark.driver.bindAddress"}


def _wanted(chosen: dict[str, str] | None = None) -> Wanted:
    return Wanted(chosen or {}, LOCAL, UTC, ["our:jar:1"], ["our.Extension"])


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


@pytest.mark.parametrize(
    ("chosen", "given", "holds"),
    [
        ({}, {}, "local[*]"),
        ({}, {"spark.master": "yarn"}, "yarn"),
        ({"spark.master": "local[3]"}, {"spark.master": "yarn"}, "local[3]"),
        ({"spark.master": "local[3]"}, {}, "local[3]"),
    ],
)
def test_the_configuration_wins_over_what_is_submitted_and_that_over_our_defaults(
    chosen: dict[str, str], given: dict[str, str], holds: str
) -> None:
    for is_launched in (False, True):
        assert _wanted(chosen).over(given, is_launched=is_launched)["spark.master"] == holds


def test_what_answers_depend_on_stays_as_answers_need_it_whatever_is_submitted() -> None:
    assert _wanted().over({"spark.sql.session.timeZone": "America/New_York"}).items() >= UTC.items()


def test_packages_and_extensions_are_added_to_those_that_are_there() -> None:
    given = {"spark.jars.packages": "a:b:1, our:jar:1", "spark.sql.extensions": "their.Extension"}
    settings = _wanted().over(given)
    assert settings["spark.jars.packages"] == "our:jar:1,a:b:1"
    assert settings["spark.sql.extensions"] == "our.Extension,their.Extension"


def test_what_a_jvm_was_launched_with_stays_and_is_told() -> None:
    wanted = _wanted({"spark.driver.memory": "3g", "spark.sql.ansi.enabled": "true"})
    given = {"spark.driver.memory": "1g"}
    settings = wanted.over(given, is_launched=True)
    assert (settings["spark.driver.memory"], settings["spark.sql.ansi.enabled"]) == ("1g", "true")
    assert wanted.unused(given) == {"spark.driver.memory": "3g"}
    assert wanted.unused({"spark.driver.memory": "3g"}) == {}


def test_packages_whose_jars_are_there_are_not_missed() -> None:
    wanted = _wanted({"spark.jars.packages": "org.postgresql:postgresql:42.7.4"})
    assert wanted.unused({"spark.jars": "file:///jars/org.postgresql_postgresql-42.7.4.jar"}) == {}
    assert wanted.unused({"spark.jars": "file:///jars/other.jar"}) == wanted.chosen


@pytest.mark.parametrize(
    ("there", "in_use"),
    [
        ("-XX:+UseSerialGC", True),
        ("--add-opens=java.base/java.nio=ALL-UNNAMED -XX:+UseSerialGC", True),
        ("-XX:+UseG1GC", False),
        ("-D-XX:+UseSerialGC", False),
        ("", False),
    ],
)
def test_java_options_before_which_spark_has_put_its_own_are_in_use(there: str, *, in_use: bool) -> None:
    wanted = _wanted({"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"})
    assert wanted.unused({"spark.driver.extraJavaOptions": there}) == ({} if in_use else wanted.chosen)


def test_the_locale_comes_after_the_java_options_and_is_no_difference() -> None:
    wanted = _wanted(dict.fromkeys(JAVA_OPTIONS, "-XX:+UseSerialGC"))
    settings = wanted.over({})
    assert {settings[name] for name in JAVA_OPTIONS} == {f"-XX:+UseSerialGC {LOCALE_OPTIONS}"}
    assert wanted.unused(settings) == {}
    assert _wanted().over(settings, is_launched=True).items() >= {name: settings[name] for name in JAVA_OPTIONS}.items()
    submitted = _wanted().over({"spark.driver.memory": "1g"}, is_launched=True)
    assert [submitted.get(name) for name in JAVA_OPTIONS] == [None, LOCALE_OPTIONS]


def test_an_application_keeps_the_name_that_it_was_submitted_under() -> None:
    assert _wanted().over({"spark.app.name": "pyspark-shell"})["spark.app.name"] == "headwater"
    assert _wanted().over({"spark.app.name": "ranks.py"})["spark.app.name"] == "ranks.py"


def test_a_local_master_is_on_loopback_and_any_address_that_is_set_is_left_alone() -> None:
    settings = _wanted().over({})
    assert {settings[name] for name in HOSTS} == {"127.0.0.1"}
    assert HOSTS.isdisjoint(_wanted().over({"spark.master": "yarn"}))
    one = _wanted().over({"spark.driver.host": "driver.example"})
    assert HOSTS & one.keys() == {"spark.driver.host"}


def test_a_standalone_master_is_reached_from_the_network_that_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _wanted({"spark.master": "spark://127.0.0.1:7077"}).over({})
    assert {settings[name] for name in HOSTS} == {"127.0.0.1"}
    assert address_towards("spark://192.0.2.77:7077") not in {"127.0.0.1", "0.0.0.0"}
    assert address_towards("yarn") is None
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    assert HOSTS.isdisjoint(_wanted({"spark.master": "spark://127.0.0.1:7077"}).over({}))


def test_a_master_that_does_not_answer_is_told_with_its_addresses() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(
            ClusterUnavailable, match=rf"spark://{closed} does not answer \({closed}: Connection refused"
        ):
            check_answers(f"spark://{closed}")
        bound.listen()
        check_answers(f"spark://192.0.2.1:1,{closed}")
    check_answers("yarn")
    check_answers("local[*]")


@pytest.mark.parametrize(
    "line",
    [
        "spark.master  spark://h:7077",
        "spark.master=spark://h:7077",
        "  spark.master = spark\\://h\\:7077  ",
        "spark.master: spark://h:7077",
        "spark.master \\\n   spark://h:7077",
    ],
)
def test_defaults_are_read_as_spark_reads_them(line: str) -> None:
    assert parse_properties(f"# spark.master no\n! no\n\n{line}\nspark.ui.enabled\ttrue\n") == {
        "spark.master": "spark://h:7077",
        "spark.ui.enabled": "true",
    }


def test_what_is_given_stands_in_the_defaults_file_and_in_the_submit_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert given_before_launch() == {}
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn\nspark.a 1\nspark.b 1\n")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--master local[7] --conf spark.b=2 --name x --packages a:b:1 pyspark-shell"
    )
    expected = {"spark.master": "local[7]", "spark.a": "1", "spark.b": "2", "spark.jars.packages": "a:b:1"}
    assert given_before_launch() == expected


def test_nothing_is_given_where_spark_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(start_settings, "find_spec", lambda _name: None)
    assert given_before_launch() == {}


def test_workers_run_this_python_with_a_local_master_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers.choose_python({"spark.master": "spark://h:7077"}) == {}
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that it is put back
    monkeypatch.delenv("PYSPARK_PYTHON")
    (daemon,) = workers.choose_python({"spark.master": "local[*]"}).values()
    assert daemon.endswith("worker_daemon")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert workers.choose_python({"spark.master": "local[*]", "spark.pyspark.python": "/opt/python"}) == {}
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_workers_are_sent_what_they_need_and_not_the_rest() -> None:
    with zipfile.ZipFile(workers._archive()) as archive:
        names = archive.namelist()
        assert "import" not in archive.read("headwater/__init__.py").decode()
    assert {"headwater/adapters/records/decoder.py", "headwater/adapters/kafka/decoder.py"} <= set(names)
    assert not [name for name in names if name.startswith(("headwater/app/", "headwater/testing/"))]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "Lost task 0.3 in stage 1.0 (TID 3) (10.0.0.5 executor 2): PythonException: Traceback\n"
            "ModuleNotFoundError: No module named 'msgspec'\n\n\tat org.apache",
            r"worker of Spark \(10.0.0.5 executor 2\) .*: its Python has no msgspec\. .*pip install attrs msgspec narwhals",
        ),
        (
            "Error while finding module specification for 'headwater.x' (ModuleNotFoundError: No module named 'headwater')",
            "its Python has no headwater",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 10) than that in driver 3.11, PySpark",
            "it runs Python 3.10, the driver Python 3.11",
        ),
        ("ImportError: PyArrow >= 4.0.0 must be installed.\n", "its Python says 'PyArrow >= 4.0.0 must be installed'"),
        ('java.io.IOException: Cannot run program "/opt/py": error=2, No such file', "there is no Python at /opt/py"),
    ],
)
def test_what_a_worker_lacks_is_told_in_a_line(said: str, told: str) -> None:
    error = workers.explain(said)
    assert error is not None
    with pytest.raises(ImportError, match=told):
        raise error


def test_other_faults_are_none_of_the_workers() -> None:
    assert workers.explain("java.io.FileNotFoundException: gone") is None


def test_local_masters() -> None:
    assert [is_local(each) for each in ("local", "local[2]", "local-cluster[2,1,1024]", "spark://h:1", "yarn")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_masters_of_one_process() -> None:
    masters = ("local", "local[2]", "local[*, 3]", "local-cluster[2,1,1024]", "spark://h:1", "yarn")
    assert [is_one_process(each) for each in masters] == [True, True, True, False, False, False]
