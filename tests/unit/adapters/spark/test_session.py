"""The Spark session: where Java is found, what goes to standard output, which settings have priority."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.delta.package import EXTENSIONS
from headwater.adapters.spark.java import java_home
from headwater.adapters.spark.jvm import java_class
from headwater.adapters.spark.own_session import running_session
from headwater.adapters.spark.session import open_session
from headwater.domain.errors import ConfigError, NotInstalled

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

STARTING = """
from headwater.adapters.spark.session import open_session
session = open_session({"spark.master": "local[1]", "spark.app.id": "mine", "spark.sql.shuffle.partitions": "3"})
conf = session.sparkContext.getConf()
print(session.range(3).count(), session.conf.get("spark.sql.shuffle.partitions"), conf.get("spark.driver.host"))
session.stop()
"""

STOPPING = """
import sys
from importlib.util import find_spec
from headwater.adapters.delta.package import PACKAGES
from headwater.adapters.spark.session import open_session, stop_session
session = open_session({"spark.master": "local[1]"}, packages=PACKAGES)
assert any(path.endswith(".jar") for path in sys.path)
stop_session(session)
print(find_spec("no_module_of_this_name"))
"""

STOPPED = """
from headwater.adapters.spark.session import open_session, stop_session
session = open_session({"spark.master": "local[1]"})
session.stop()
stop_session(session)
print("closed")
"""

STOPPED_BELOW = """
from pyspark.sql import SparkSession
from headwater import Headwater
from headwater.domain.errors import ConfigError

headwater = Headwater(backend="delta", path="lake", engine="spark", spark={"spark.master": "local[1]"}, environ={})
headwater.files("rows", path=".", schema="id bigint, at timestamp")
headwater.ranking("ranks", source="rows", group=["id"], id=["id"], order_by="at")
handle = headwater.pipeline("ranks")
SparkSession.getActiveSession().stop()
for work in (lambda: headwater.run(until_idle=True), headwater.status, lambda: handle.epoch):
    try:
        work()
    except ConfigError as error:
        print(error)
headwater.close()
print("closed")
"""

WITHOUT_DELTA = """
from headwater.adapters.delta.package import EXTENSIONS
from headwater.adapters.spark.session import open_session
from headwater.domain.errors import ConfigError

def attempt():
    try:
        open_session({}, extensions=EXTENSIONS)
    except ConfigError as error:
        print(error)

session = open_session({"spark.master": "local[1]"})
attempt()
session.stop()
attempt()
print(open_session({"spark.master": "local[1]"}).range(3).count())
"""

LETTERS = """
from headwater.adapters.spark.session import open_session

session = open_session({"spark.master": "local[1]", "spark.driver.extraJavaOptions": "-Duser.language=az"})
columns = "upper(concat('zürich i', id))", "lower(concat('İI', id))"
print(*session.range(1).selectExpr(*columns).first(), session._jvm.java.text.NumberFormat.getInstance().format(12))
executors = session.sparkContext.getConf().get("spark.executor.extraJavaOptions")
print("-Duser.language=en" in executors)
"""

NAMES = """
import os
from headwater.adapters.spark.session import open_session

session = open_session({"spark.master": "local[1]"})
session.range(3).write.parquet(os.path.abspath("lake\\u00fc"))
print(session.read.parquet(os.path.abspath("lake\\u00fc")).count(), ascii(os.listdir()), os.environ["LC_ALL"])
"""

LOCALES = """
import sys
from pyspark.sql import SparkSession
from headwater.adapters.spark.session import open_session
from headwater.domain.errors import ConfigError

session = SparkSession.builder.master("local[1]").getOrCreate()
locales = session._jvm.java.util.Locale
for tag in sys.argv[1:]:
    locales.setDefault(locales.forLanguageTag(tag))
    try:
        open_session({})
    except ConfigError as error:
        print(error)
    else:
        print("open")
"""


def _java(folder: Path, version: str) -> Path:
    """A folder laid out as a Java home, whose program only tells its version, as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with neither a Java of its own nor the wheel."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def test_java_home_of_the_right_version_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_java: None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "jdk", "17.0.9")))
    assert java_home() == str(tmp_path / "jdk")


def test_the_path_is_looked_at_where_java_home_is_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_java: None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "new", "17.0.9") / "bin"))
    assert java_home() == str(tmp_path / "new")


def test_the_error_names_what_was_met_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_java: None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "newer", "21.0.1")))
    with pytest.raises(NotInstalled, match=r"newer \(version 21\).*headwater\[jdk\]"):
        java_home()


@pytest.mark.delta
def test_a_session_leaves_standard_output_to_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "3 3 127.0.0.1\n"


@pytest.mark.delta
def test_letters_and_digits_do_not_follow_the_locale_of_the_machine(tmp_path: Path) -> None:
    there = "-Duser.language=tr -Duser.country=TR -Duser.language.format=ar -Duser.extensions.format=u-nu-arab"
    done = subprocess.run(
        [sys.executable, "-c", LETTERS],
        cwd=tmp_path, env={**os.environ, "JAVA_TOOL_OPTIONS": there}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "ZÜRICH I0 i\N{COMBINING DOT ABOVE}i0 12\nTrue\n", done.stderr
    assert "is not used" not in done.stderr


@pytest.mark.delta
def test_file_names_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    environ = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", NAMES], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout == "3 ['lake\\xfc'] C\n", done.stderr


@pytest.mark.delta
def test_a_jvm_that_runs_in_a_locale_that_changes_results_is_refused(tmp_path: Path) -> None:
    tags = ["tr-TR", "az-AZ", "lt-LT", "ar-EG", "en-US-u-nu-deva", "de-DE", "en-US", "und"]
    done = subprocess.run(
        [sys.executable, "-c", LOCALES, *tags], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    told = done.stdout.splitlines()
    assert told[5:] == ["open"] * 3, done.stderr
    for tag, message in zip(tags, told[:5], strict=False):
        assert f"Spark's JVM runs in the locale {tag}, in which" in message
        assert '"spark.driver.extraJavaOptions" = "-Duser.language=en -Duser.country=US"' in message


@pytest.mark.delta
def test_modules_are_found_after_a_session_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPING], capture_output=True, text=True, check=False)
    assert done.stdout == "None\n", done.stderr


@pytest.mark.delta
def test_a_session_that_the_program_has_stopped_is_left_alone() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=False)
    assert done.stdout == "closed\n", done.stderr


@pytest.mark.delta
def test_work_on_spark_that_the_program_has_stopped_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_BELOW], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    refused = "Spark has been stopped in this program; open another Headwater\n"
    assert done.stdout == f"{refused * 3}closed\n", done.stderr


@pytest.mark.delta
def test_the_running_session_is_used_if_it_fits(program_session: SparkSession) -> None:
    assert open_session({"spark.sql.shuffle.partitions": "7"}, extensions=EXTENSIONS) is program_session
    with pytest.raises(ConfigError, match=r"without org\.example\.Missing.*start a new Python process"):
        open_session({}, extensions=["org.example.Missing"])


@pytest.mark.delta
def test_tasks_carry_no_defaults_of_clusters(program_session: SparkSession, tmp_path: Path) -> None:
    program_session.range(3).write.parquet(str(tmp_path / "written"))  # the first file once brought them back
    configuration = program_session._jsparkSession.sessionState().newHadoopConf()
    assert configuration.get("yarn.resourcemanager.hostname") is None
    assert configuration.get("io.file.buffer.size") == "65536"
    # Spark sets it, and not to Hadoop's default.
    assert configuration.get("mapreduce.fileoutputcommitter.algorithm.version") == "1"
    written = java_class(program_session, "java.io.ByteArrayOutputStream")()
    configuration.write(java_class(program_session, "java.io.DataOutputStream")(written))
    assert written.size() < 40_000


@pytest.mark.delta
def test_a_session_is_found_from_every_thread(program_session: SparkSession) -> None:
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(running_session).result() is program_session


@pytest.mark.delta
def test_a_process_that_ran_spark_without_delta_is_told_to_start_anew(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DELTA], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    running, stopped, plain = done.stdout.splitlines()
    assert "the Spark session that is running was started without io.delta" in running
    assert "Spark session ran in this Python process before" in stopped
    assert "start a new Python process" in running
    assert "start a new Python process" in stopped
    assert plain == "3"
