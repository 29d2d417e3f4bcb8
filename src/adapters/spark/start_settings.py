"""Merges Spark settings: `[backend.spark]` wins over submitted ones and spark-defaults.conf, these win over ours."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

from .java_locale import JAVA_OPTIONS, with_locale, without_locale
from .master import LOOPBACK, address_towards, is_local

MASTER = "spark.master"
PACKAGES, EXTENSIONS = "spark.jars.packages", "spark.sql.extensions"
DRIVER_HOST, BIND_ADDRESS = "spark.driver.host", "spark.driver.bindAddress"
WORKER_PYTHON, DAEMON = "spark.pyspark.python", "spark.python.daemon.module"
_APP_NAME = "spark.app.name"
_NAME_OF_NONE = "pyspark-shell"
"""The application's name if none is set."""
_AT_LAUNCH = frozenset(
    {
        PACKAGES,
        "spark.driver.defaultJavaOptions",
        "spark.driver.extraClassPath",
        "spark.driver.extraJavaOptions",
        "spark.driver.extraLibraryPath",
        "spark.driver.memory",
        "spark.jars.excludes",
        "spark.jars.ivy",
        "spark.jars.ivySettings",
        "spark.jars.repositories",
        "spark.submit.deployMode",
    }
)
"""Settings with which the driver's JVM is started; they cannot be changed later."""
_DEFAULTS = "spark-defaults.conf"
_COMMENT = ("#", "!")
_ESCAPED = re.compile(r"\\(.)")
_LINE = re.compile(r"((?:\\.|[^\s:=\\])+)\s*[=:]?\s*(.*)")
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*")


@frozen
class Wanted:
    """The settings, packages and extensions that a session needs.

    Args:
        chosen: the settings under `[backend.spark]`.
        defaults: our defaults, which everything else overrides.
        needs: settings that results depend on; only `chosen` overrides them.
        packages: required Maven coordinates.
        extensions: required session extensions.
    """

    chosen: Mapping[str, str]
    defaults: Mapping[str, str]
    needs: Mapping[str, str]
    packages: Sequence[str]
    extensions: Sequence[str]

    def over(self, given: Mapping[str, str], *, is_launched: bool = False) -> dict[str, str]:
        """All settings of the session.

        Args:
            given: settings that were submitted or are in spark-defaults.conf.
            is_launched: whether the driver's JVM runs already, so that the settings of its start stay.
        """
        chosen = {name: value for name, value in self.chosen.items() if not (is_launched and name in _AT_LAUNCH)}
        named = {name: value for name, value in given.items() if (name, value) != (_APP_NAME, _NAME_OF_NONE)}
        merged = {_APP_NAME: "headwater", **self.defaults, **named, **self.needs, **chosen}
        merged[EXTENSIONS] = join(self.extensions, merged.get(EXTENSIONS))
        if not is_launched:
            merged[PACKAGES] = join(self.packages, merged.get(PACKAGES))
        for name in JAVA_OPTIONS:
            if not (is_launched and name in _AT_LAUNCH):
                merged[name] = with_locale(merged, name)
        by_master = _defaults_for(merged.get(MASTER, "local[*]"), merged)
        return {name: value for name, value in (by_master | merged).items() if value}

    def unused(self, given: Mapping[str, str]) -> dict[str, str]:
        """The settings of `[backend.spark]` without effect, because the driver's JVM was started with other values."""
        at_launch = {name: value for name, value in self.chosen.items() if name in _AT_LAUNCH}
        return {name: value for name, value in at_launch.items() if not _is_applied(name, value, given)}


def join(ours: Sequence[str], theirs: str | None) -> str:
    """A comma-separated list for Spark's settings, without duplicates."""
    listed = [*ours, *(theirs or "").split(",")]
    return ",".join(dict.fromkeys(each.strip() for each in listed if each.strip()))


def given_before_launch() -> dict[str, str]:
    """The settings of spark-defaults.conf, overridden by those of ``PYSPARK_SUBMIT_ARGS``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--master")
    parser.add_argument("--packages")
    parser.add_argument("--properties-file")
    parser.add_argument("--conf", "-c", action="append", default=[])
    options, _ = parser.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    named = {MASTER: options.master, PACKAGES: options.packages}
    path = Path(options.properties_file) if options.properties_file else _defaults_path()
    settings = parse_properties(path.read_text("utf-8")) if path and path.is_file() else {}
    settings |= dict(each.split("=", 1) for each in options.conf if "=" in each)
    return settings | {name: value for name, value in named.items() if value}


def parse_properties(text: str) -> dict[str, str]:
    """The settings of a file such as spark-defaults.conf: each line has a name, blanks or ``=`` or ``:``, a value."""
    lines = (line.strip() for line in _CONTINUED.sub(r"\1", text).splitlines())
    found = (_LINE.fullmatch(line) for line in lines if not line.startswith(_COMMENT))
    return {_plain(each[1]): _plain(each[2]) for each in found if each}


def _defaults_path() -> Path | None:
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder, _DEFAULTS)
    home = _home()
    return home / "conf" / _DEFAULTS if home else None


def _home() -> Path | None:
    """Where Spark is installed: ``SPARK_HOME``, the Python package, or the distribution that the package is a part of.

    None if it is not. The package is not imported for that, which would take longer than a command that only reads.
    """
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent
    return package if (package / "jars").is_dir() else package.parents[1]


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def is_same(name: str, value: str, there: str | None) -> bool:
    """Whether Spark runs with the value of a setting; it puts Java options of its own before the user's.

    Headwater puts those of the locale after them.
    """
    return value == there or (
        name in JAVA_OPTIONS and f" {without_locale(there or '')}".endswith(f" {without_locale(value.strip())}")
    )


def _is_applied(name: str, value: str, given: Mapping[str, str]) -> bool:
    """Whether a JVM was launched with a setting."""
    return is_same(name, value, given.get(name)) or (name == PACKAGES and _are_there(value, given))


def _are_there(packages: str, given: Mapping[str, str]) -> bool:
    """Whether a JVM was launched with these packages, judged by the names of its jars."""
    jars = given.get("spark.jars", "")
    names = ("-".join(each.split(":")[1:3]) for each in join((), packages).split(","))
    return all(name in jars for name in names)


def _defaults_for(master: str, others: Mapping[str, str]) -> dict[str, str]:
    """The address on which the driver listens and that executors get; empty if set, or if the master has no address.

    A laptop's host name often resolves to an address that changes with the network. With a local master, no other
    machine may connect.
    """
    if DRIVER_HOST in others or BIND_ADDRESS in others:
        return {}
    if is_local(master):
        return {DRIVER_HOST: LOOPBACK, BIND_ADDRESS: LOOPBACK}
    if os.environ.keys() & {"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"}:
        return {}
    address = address_towards(master)
    return {DRIVER_HOST: address, BIND_ADDRESS: address} if address else {}
