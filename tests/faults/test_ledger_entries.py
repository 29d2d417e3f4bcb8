"""A mark that cannot be read: the error names the commit, and no new commit builds on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.domain.errors import TableDamaged

from .broken import on_files, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .broken import Broken


def version_of(commit: Path) -> str:
    """The version that a commit's file makes, as its backend names it."""
    return str(int(commit.stem)) if commit.suffix == ".json" else commit.name.split("_", 1)[0]


@on_files
@pytest.mark.faults("the ledger's entry in the newest commit is damaged")
@pytest.mark.parametrize(
    ("there", "instead"), [(b"writer", b"wrotes"), (b"false", b"falsy")], ids=["a field is missing", "no JSON"]
)
def test_a_damaged_mark(broken: Broken, survived: Callable[[str], None], there: bytes, instead: bytes) -> None:
    commit, before = broken.commits("cells")[-1], broken.commits("ranked")
    whole = commit.read_bytes()
    at = whole.index(b"rolls_back") if there == b"false" else 0
    put(commit, whole[:at] + whole[at:].replace(there, instead, 1))
    broken.feed(2)
    told = rf"version {version_of(commit)} of \S+/ranked/cells carries a mark that cannot be read .*from a backup"
    for attempt in (broken.answer, broken.run):
        with pytest.raises(TableDamaged, match=told):
            attempt()
    assert broken.commits("ranked") == before
    assert broken.commits("cells")[-1] == commit
    put(commit, whole)
    broken.run()
    broken.check()
    survived("refused: `TableDamaged`")
