"""A clock that is set back: epochs stay in order, and earlier versions can still be read by time."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headwater.domain.errors import StoreUnavailable

from .broken import everywhere, on_delta, on_hudi

if TYPE_CHECKING:
    from collections.abc import Callable

    from .broken import Broken

_BACK = timedelta(hours=1)


@everywhere
@pytest.mark.faults("the clock that stamps publications steps back between epochs")
def test_publications_stay_in_order(broken: Broken) -> None:
    clock = broken.trial.open().start()[0].clock
    clock.sleep(-_BACK)
    broken.runs(2)
    broken.check()
    newest, *older = broken.trial.publications("ranked")
    assert [each.epoch.number for each in (newest, *older)] == [2, 1, 0]
    assert newest.published_at < older[-1].published_at
    deployment = broken.trial.open()
    seen = [
        deployment.snapshot("ranked", at).publication for at in sorted(each.published_at for each in (newest, *older))
    ]
    assert seen == [newest] * 3  # whenever it was, by that clock, the newest stood last


@on_delta
@pytest.mark.faults("the machine's clock is set back by an hour")
def test_delta_counts_its_versions(broken: Broken) -> None:
    ahead = time.time() + _BACK.total_seconds()
    for table in ("ranked", "cells"):
        for file in broken.commits(table):
            os.utime(file, (ahead, ahead))
    broken.runs(2)
    broken.check()


def set_back(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> None:
    class Behind(datetime):
        @classmethod
        def now(cls, _zone: object = None) -> datetime:
            return datetime.now(UTC) - by

    from headwater.adapters.hudi import timeline

    monkeypatch.setattr(timeline, "datetime", Behind)


@on_hudi
@pytest.mark.faults("the machine's clock is set back by an hour")
def test_hudi_waits_for_its_newest_instant(
    broken: Broken, survived: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken.feed(2)
    with monkeypatch.context() as patched:
        set_back(patched, _BACK)
        with pytest.raises(StoreUnavailable, match=r"the clock is \S+ behind the newest commit or .*; set it right"):
            broken.run()
    assert broken.answer() == broken.expected([0, 1])
    broken.run()
    broken.check()
    survived("refused: `StoreUnavailable`, until the clock is right")
