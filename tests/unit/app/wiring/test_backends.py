"""Which backend keeps the tables at an address."""

from __future__ import annotations

import sys

import pytest

from headwater.app.config import BackendSettings, load_tables
from headwater.app.wiring import backends
from headwater.app.wiring.backends import BucketDeltaBackend, DeltaBackend, HudiMorBackend
from headwater.domain.errors import ConfigError, NotInstalled


def settings(path: str, engine: str | None = None) -> BackendSettings:
    return BackendSettings(name="delta", path=path, engine=engine)


@pytest.mark.parametrize(
    "address",
    ["s3://lake/tables", "s3a://lake", "S3://lake", "gs://lake", "az://lake", "abfss://lake@bank.dfs.core.windows.net"],
)
def test_tables_in_an_object_store(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "is_installed", lambda _: True)
    assert DeltaBackend.chosen(settings(address, "local")) is BucketDeltaBackend
    for engine in ("spark", "auto", None):
        assert DeltaBackend.chosen(settings(address, engine)) is DeltaBackend
    monkeypatch.setattr(backends, "is_installed", lambda package: package not in DeltaBackend.packages)
    for engine in ("auto", None):
        assert DeltaBackend.chosen(settings(address, engine)) is BucketDeltaBackend
    assert set(BucketDeltaBackend.packages) == {"deltalake", "obstore"}


@pytest.mark.parametrize(
    ("backend", "address", "told"),
    [
        (DeltaBackend, "hdfs://lake", r"a folder of this machine, s3://….*, abfss://…, and not at hdfs://lake: set"),
        (DeltaBackend, "s3:/lake", r", abfss://…, and not at s3:/lake: set"),
        (HudiMorBackend, "s3://lake", r"a folder of this machine, and not at s3://lake: set engine = \"spark\""),
    ],
)
def test_the_local_engine_elsewhere(backend: type[backends._TwoEngines], address: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        backend.chosen(settings(address, "local"))


def test_an_object_store_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "headwater.adapters.delta.local.bucket", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    deployment = load_tables({"backend": {"name": "delta", "engine": "local", "path": "s3://lake/x"}}, {}, whole=False)
    with pytest.raises(NotInstalled, match=r"^obstore is not installed: run pip install 'headwater\[s3\]'$"):
        BucketDeltaBackend().store(deployment)
