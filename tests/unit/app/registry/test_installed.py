"""Kinds and backends from packages whose code cannot be imported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.app.cli.durable import check_target
from headwater.app.config import Deployment
from headwater.app.config.json_schema import json_schema
from headwater.app.services.kind import load_service
from headwater.domain.errors import ConfigError

GOOD = """\
[backend]
name = "memory"

[sources.orders]
kind = "files"
path = "in/orders"
schema = "id bigint, at timestamp"

[pipelines.newest]
service = "ranking"
source = "orders"
group = ["id"]
id = ["id"]
order_by = "-at"
"""
BROKEN = "(package line-files 0.1, {}) cannot be imported: {}; install what it lacks, or remove the package"
LACKS = BROKEN.format("linefiles:Kind", "ModuleNotFoundError: No module named 'nomodule'")


@pytest.fixture(autouse=True)
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs a package with a kind of each group, none of which can be imported."""
    about = tmp_path / "site" / "line_files-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: line-files\nVersion: 0.1\n")
    groups = ("backends", "sources", "services", "bulk_loads")
    lines = [f"[headwater.{group}]\nlines = linefiles:Kind\nfixed = json:Kind\n" for group in groups]
    (about / "entry_points.txt").write_text("".join(lines))
    (tmp_path / "site" / "linefiles.py").write_text("import nomodule\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_a_deployment_that_does_not_use_them_is_loaded(deploy: Callable[..., Deployment]) -> None:
    deployment = deploy(GOOD, HEADWATER_SOURCES__ORDERS__TIME_ZONE="Asia/Tokyo")
    assert deployment.sources["orders"].records.time_zone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"memory"', '"lines"', "deploy.toml:2: backend.name: backend 'lines' "),
        ('"files"', '"lines"', "deploy.toml:5: sources.orders.kind: source 'lines' "),
        ('"ranking"', '"lines"', "deploy.toml:10: pipelines.newest.service: service 'lines' "),
    ],
)
def test_one_that_uses_them_is_refused(refusal: Callable[..., str], old: str, new: str, told: str) -> None:
    assert refusal(GOOD.replace(old, new)) == told + LACKS


def test_its_own_keys_are_not_told_in_its_place(refusal: Callable[..., str]) -> None:
    assert refusal(GOOD.replace('"files"', '"lines"'), HEADWATER_SOURCES__ORDERS__LINES="3").endswith(LACKS)


def test_one_whose_variable_names_them_is_refused(refusal: Callable[..., str]) -> None:
    assert refusal(GOOD, HEADWATER_SOURCES__ORDERS__KIND="lines").endswith("source 'lines' " + LACKS)


def test_a_class_that_is_missing_is_told(refusal: Callable[..., str]) -> None:
    lacks = BROKEN.format("json:Kind", "AttributeError: module 'json' has no attribute 'Kind'")
    assert refusal(GOOD.replace('"files"', '"fixed"')).endswith("source 'fixed' " + lacks)


def test_a_service_that_is_unknown_is_told_all_the_same(refusal: Callable[..., str]) -> None:
    assert "'rankin' is unknown; allowed: " in refusal(GOOD.replace('"ranking"', '"rankin"'))


def test_idle_after_names_the_services_without_them(refusal: Callable[..., str]) -> None:
    told = refusal(GOOD.replace("schema", 'idle_after = "1m"\nevent_time = "at"\nschema'))
    assert "only a pipeline with service = " in told


def test_the_backends_that_are_durable_are_listed_without_them(deploy: Callable[..., Deployment]) -> None:
    with pytest.raises(ConfigError, match=r"move to one of: delta, hudi-cow, hudi-mor$"):
        check_target(deploy(GOOD))


def test_the_schema_names_what_is_broken() -> None:
    with pytest.raises(ConfigError, match=r"\(package line-files 0\.1, "):
        json_schema()


@pytest.mark.parametrize(
    ("group", "name", "shipped"),
    [
        ("sources", "files", "headwater.app.sources.files:FilesKind"),
        ("services", "ranking", "headwater.app.services.ranking:RankingKind"),
        ("backends", "memory", "headwater.app.wiring.backends:MemoryBackend"),
    ],
)
def test_a_name_that_is_taken_is_refused(
    refusal: Callable[..., str], tmp_path: Path, group: str, name: str, shipped: str
) -> None:
    about = tmp_path / "site" / "line_files-0.1.dist-info"
    (about / "entry_points.txt").write_text(f"[headwater.{group}]\n{name} = linefiles:Kind\n")
    load_service.cache_clear()  # other tests have loaded the service that is shipped
    message = refusal(GOOD)
    assert (
        f"{group[:-1]} {name!r} is registered twice: (package line-files 0.1, linefiles:Kind) and (package" in message
    )
    assert f", {shipped}); remove a package, or rename its entry point" in message
