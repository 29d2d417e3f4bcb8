"""The backends that the feature files run over; their steps are those that ship in `headwater.testing.steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headwater.app.runner import Runner
    from headwater.testing.trial import Trial


@pytest.fixture(params=["memory", "parquet", pytest.param("delta", marks=pytest.mark.delta)], autouse=True)
def headwater_backend(request: pytest.FixtureRequest) -> str:
    """Every backend in turn."""
    if request.param == "parquet":
        request.getfixturevalue("parquet_backend")
    return request.param


@pytest.fixture
def headwater_trial(request: pytest.FixtureRequest, headwater_backend: str, headwater_trial: Trial) -> Trial:
    """The deployment that a scenario is about, on the session of all tests where it needs one."""
    if headwater_backend == "delta":
        request.getfixturevalue("spark")
        headwater_trial.prepare = _compact_few_files
    return headwater_trial


def _compact_few_files(runner: Runner) -> None:
    """Let a compaction take up the few files of a scenario."""
    from headwater.adapters.delta.compaction import CompactionPolicy

    runner.keeper.compaction = CompactionPolicy(min_files=2, min_share=0)
