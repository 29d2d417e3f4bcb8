"""`headwater init` prints files that work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from headwater import Headwater
from headwater.app.cli.main import main
from headwater.app.config.template import template
from headwater.app.services.kind import load_service
from tests.unit.app.config.test_json_schema import mistakes

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = ("ranking", "retraction", "cumulate", "wide_table", "snapshots", "bulk_merge", "materialized_view")
ORDER = '{"order_id": 1, "customer_id": 7, "state": "new", "amount": 9.5, "ordered_at": "2024-03-01T09:00:00Z"}\n'


@pytest.mark.parametrize("service", SERVICES)
class TestInit:
    def test_it_is_checked_and_run(
        self, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["init", service]) == 0
        text = capsys.readouterr().out
        (tmp_path / "deploy.toml").write_text(text)
        (tmp_path / "in").mkdir()
        (tmp_path / "history").mkdir()
        (tmp_path / "in" / "a.json").write_text(ORDER)
        assert main(["check", "deploy.toml"]) == 0
        assert main(["run", "deploy.toml", "--until-idle"]) == 0
        assert mistakes(text) == []

    def test_it_names_every_key(self, service: str) -> None:
        text = template(service, "delta").split("\n[pipelines.")[-1]
        for key in load_service(service).keys:
            assert re.search(rf"^(# )?{key}( =|:)", text, re.MULTILINE), key

    def test_it_names_the_engines(self, service: str) -> None:
        assert "\n# engine: one of local, spark, auto\n" in template(service, "delta")

    def test_the_defaults_change_nothing_if_they_are_written(self, service: str) -> None:
        lines = template(service, "memory").split("\n")
        # `before` is a key of changelogs, which is refused for other formats.
        written = [re.sub(r"^# (?!before)(\w+ = )", r"\1", line) for line in lines]
        assert len([line for line in lines if line not in written]) > 8
        expected = Headwater.from_text("\n".join(lines), environ={}).deployment
        assert Headwater.from_text("\n".join(written), environ={}).deployment == expected


def test_an_unknown_service_or_backend(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "rankin"]) == 2
    assert "did you mean 'ranking'?" in capsys.readouterr().err
    assert main(["init", "ranking", "--backend", "iceberg"]) == 2
    assert "backend 'iceberg' is not available here" in capsys.readouterr().err
