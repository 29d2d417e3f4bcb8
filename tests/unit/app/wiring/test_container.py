"""Which query engine a deployment gets."""

import signal
from contextlib import ExitStack

import pytest

from headwater.adapters.memory.queries import DuckQueries
from headwater.app.registry.backends import Backend, Gap, Part, chosen_backend
from headwater.app.wiring import container
from headwater.app.wiring.backends import MemoryBackend
from headwater.app.wiring.engine_parts import EngineParts
from headwater.domain.errors import NotSupported
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts


@pytest.fixture
def deployment(tmp_path):
    trial = Trial(tmp_path, "memory", ExitStack())
    trial.deploy(ranked_contracts())
    return trial.deployment()


def test_memory_runs_on_duckdb(deployment):
    parts = EngineParts(deployment, chosen_backend(deployment.backend), ExitStack())
    assert isinstance(parts.queries, DuckQueries)


class Silent(Backend):
    """Binds nothing, and declares no gap."""


class Declared(MemoryBackend):
    gaps = (Gap(Part.SQL, "write no SQL"),)


@pytest.mark.parametrize(("backend", "remedy"), [(Silent, "choose a backend that runs it"), (Declared, "write no SQL")])
def test_a_backend_may_run_none(deployment, backend, remedy):
    with pytest.raises(NotSupported, match=f"memory does not support user-supplied SQL: {remedy}"):
        _ = EngineParts(deployment, backend, ExitStack()).queries


def test_an_engine_that_starts_in_a_run_leaves_the_interrupt_to_it():
    former = signal.getsignal(signal.SIGINT)
    with container._keep_interrupt():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert signal.getsignal(signal.SIGINT) is former
    finally:
        signal.signal(signal.SIGINT, former)
