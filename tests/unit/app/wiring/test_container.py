"""Which query engine a deployment gets."""

import signal
from contextlib import ExitStack

import pytest

from headwater.adapters.memory.queries import DuckQueries
from headwater.app.registry.backends import Backend, Gap, Part
from headwater.app.run.clock import SystemClock
from headwater.app.wiring import container
from headwater.app.wiring.backends import MemoryBackend
from headwater.app.wiring.container import Container
from headwater.domain.errors import NotSupported
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
    monkeypatch.setattr(container, "chosen_backend", lambda _: backend)
    with pytest.raises(NotSupported, match=f"memory does not support user-supplied SQL: {remedy}"):
        _ = Container(deployment, SystemClock()).queries


def test_an_engine_that_starts_in_a_run_leaves_the_interrupt_to_it():
    former = signal.getsignal(signal.SIGINT)
    with container._keep_interrupt():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert signal.getsignal(signal.SIGINT) is former
    finally:
        signal.signal(signal.SIGINT, former)
