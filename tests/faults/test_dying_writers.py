"""A writer that dies inside a commit: its files are written, its commit is not made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory import store as memory
from headwater.testing.failing_store import Crash, Fault

from .broken import on_files, put, remove

if TYPE_CHECKING:
    from .broken import Broken

pytestmark = pytest.mark.faults("a crash inside a commit: files are written, the commit is not made")


@on_files
def test_what_it_left_is_ignored_or_rolled_back(broken: Broken) -> None:
    broken.feed(2)
    with pytest.raises(Crash):
        broken.trial.run(fault=Fault(before=False, commit=1))
    unmade = broken.commits("ranked")[-1]
    half = unmade.read_bytes()[:100]
    remove(unmade)
    put(unmade.with_name(f".{unmade.name}.0d5f.tmp"), half)
    broken.epochs.remove(2)
    broken.check()
    broken.epochs.append(2)
    broken.run()
    broken.check()


@pytest.mark.parametrize("backend", ["memory"])
def test_memory_keeps_nothing_of_it(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise Crash

    broken.feed(2)
    with monkeypatch.context() as patched, pytest.raises(Crash):
        patched.setattr(memory, "apply_change", dies)
        broken.run()
    assert broken.answer() == broken.expected([0, 1])
    broken.run()
    broken.check()
