"""Which query engine a deployment gets."""

from contextlib import ExitStack
from datetime import UTC, date, datetime

import pytest

from headwater.adapters.memory.queries import DuckQueries
from headwater.app import container
from headwater.app.backends import Backend, Gap, Part
from headwater.app.clock import SystemClock
from headwater.app.container import Container, MemoryBackend
from headwater.domain.errors import BadInput, NotSupported
from headwater.domain.schema import Schema
from headwater.testing.backends import memory_backend
from headwater.testing.frames import polars_frame
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts


@pytest.fixture
def deployment(tmp_path):
    trial = Trial(tmp_path, "memory", ExitStack())
    trial.deploy(ranked_contracts())
    return trial.deployment()


def test_memory_runs_on_duckdb(deployment):
    assert isinstance(Container(deployment, SystemClock()).queries, DuckQueries)


class Silent(Backend):
    """Binds nothing, and declares no gap."""


class Declared(MemoryBackend):
    gaps = (Gap(Part.SQL, "write no SQL"),)


@pytest.mark.parametrize(("backend", "remedy"), [(Silent, "choose a backend that runs it"), (Declared, "write no SQL")])
def test_a_backend_may_run_none(deployment, monkeypatch, backend, remedy):
    monkeypatch.setattr(container, "load_backend", lambda _: backend)
    with pytest.raises(NotSupported, match=f"memory does not support SQL of the user's own: {remedy}"):
        _ = Container(deployment, SystemClock()).queries


@pytest.mark.parametrize(
    "text",
    ["date_add(d, 1)", "add_months(d, 1)", "d + interval 1 day", "date_add(d, 2000000000)", "t + interval 1 hour"],
)
def test_a_time_beyond_the_year_9999_is_refused(text):
    rows = [(date(9999, 12, 31), datetime(9999, 12, 31, 23, tzinfo=UTC))]
    backend, frame = memory_backend(), polars_frame(rows, Schema.parse("d date, t timestamp"))
    with pytest.raises(BadInput, match=r"column 'x' has a time outside 0001-01-01 to 9999-12-31"):
        backend.queries.query(f"SELECT {text} AS x FROM f", {"f": frame}).collect()
