"""Backends by name, and the gaps that they declare."""

import runpy
from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater import Headwater
from headwater.app.config import BulkJdbc
from headwater.app.registry.backends import Part, load_backend
from headwater.app.wiring.sources import PolarsSources
from headwater.domain.errors import ConfigError, NotSupported
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

ROOT = Path(__file__).parents[4]
DATABASE = BulkJdbc("jdbc:postgresql://127.0.0.1/shop", "orders")


def test_the_table_in_the_docs_is_up_to_date():
    script = runpy.run_path(str(ROOT / ".ci" / "backends_table.py"))
    assert script["PAGE"].read_text() == script["page"](script["shipped"]()), "run make docs"


def test_a_declared_gap_is_what_is_refused():
    gap = next(each for each in PolarsSources.gaps if each.part is Part.DATABASES)
    with pytest.raises(NotSupported) as refused:
        PolarsSources("shelf").open_bulk(DATABASE, None)
    assert (refused.value.port, refused.value.backend) == (gap.part.value, "shelf")
    assert str(refused.value) == f"shelf does not support bulk loads from a database: {gap.remedy}"


def test_tables_in_memory_go_with_the_process(tmp_path):
    trial = Trial(tmp_path, "memory", ExitStack())
    trial.deploy(ranked_contracts())
    trial.feed("contracts", ['{"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}'])
    trial.run()
    assert trial.reader.epoch("ranked") == 0
    assert not load_backend("memory").offers(Part.DURABILITY)
    with Headwater(trial.deployment()) as another_process:
        assert another_process.epoch("ranked") == -1


def test_an_unknown_backend_is_told_with_those_there_are():
    with pytest.raises(ConfigError, match=r"backend 'shelf' is not available here; available: .*memory"):
        load_backend("shelf")
