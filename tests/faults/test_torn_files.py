"""Files that are cut off or missing: the error names them, and nothing is lost once the remedy is followed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from headwater.domain.errors import TableDamaged, VersionExpired
from headwater.testing.failing_store import Crash, Fault

from .broken import on_files, put, remove, tear

if TYPE_CHECKING:
    from collections.abc import Callable

    from .broken import Broken


@on_files
@pytest.mark.faults("a data file of the newest version is cut off")
def test_a_torn_data_file(broken: Broken, survived: Callable[[str], None]) -> None:
    file = broken.newest_data("cells")
    whole = tear(file)
    with pytest.raises(TableDamaged, match=rf"ranked/cells.*{file.name}.*[Pp]ut it back from a backup"):
        broken.answer()
    broken.feed(2)
    with pytest.raises(TableDamaged, match=file.name):
        broken.run()
    put(file, whole)
    broken.run()
    broken.check()
    survived("refused: `TableDamaged`")


@on_files
@pytest.mark.faults("a data file of the newest version is gone")
def test_a_lost_data_file(broken: Broken, survived: Callable[[str], None]) -> None:
    file = broken.newest_data("cells")
    whole = file.read_bytes()
    remove(file)
    with pytest.raises((TableDamaged, VersionExpired), match=rf"ranked/cells.*{file.name}.*back from a backup") as told:
        broken.answer()
    put(file, whole)
    broken.runs(2)
    broken.check()
    survived(f"refused: `{told.typename}`")


@on_files
@pytest.mark.faults("a commit file that is empty, as after a power failure")
def test_an_empty_commit(broken: Broken, survived: Callable[[str], None]) -> None:
    _check_commit(broken, kept=0)
    survived("refused: `TableDamaged`")


@pytest.mark.parametrize("backend", ["delta:local"])
@pytest.mark.faults("a commit file without its last line")
def test_a_commit_without_its_last_line(broken: Broken, survived: Callable[[str], None]) -> None:
    _check_commit(broken, kept=-1)
    survived("refused: `TableDamaged`")


def _check_commit(broken: Broken, kept: int) -> None:
    """Check that the newest commit of a table, with so many of its lines, is refused, and that it can be put back."""
    commit = broken.commits("cells")[-1]
    whole = commit.read_bytes()
    put(commit, b"".join(whole.splitlines(keepends=True)[:kept]))
    broken.feed(2)
    with pytest.raises(TableDamaged, match=r"cells.*put it back from a backup"):
        broken.run()
    put(commit, whole)
    broken.run()
    broken.check()


@on_files
@pytest.mark.parametrize(("table", "remedy"), [("ranked", "headwater rebuild"), ("cells", "remove the folders of all")])
@pytest.mark.faults("the folder of a table is gone")
def test_a_lost_table(broken: Broken, survived: Callable[[str], None], table: str, remedy: str) -> None:
    folder = broken.folder(table)
    folder.rename(folder.with_name("elsewhere"))
    broken.feed(2)
    match = rf"its table .*{table}.*put the table's folder back from a backup, or .*{remedy}"
    with pytest.raises(TableDamaged, match=match):
        broken.run()
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name("elsewhere").rename(folder)
    broken.run()
    broken.check()
    survived("refused: `TableDamaged`")


@on_files
@pytest.mark.faults("half a commit file, left by a writer that died before the publication")
def test_a_torn_commit(broken: Broken, survived: Callable[[str], None]) -> None:
    broken.feed(2)
    with pytest.raises(Crash):
        broken.trial.run(fault=Fault(before=True))
    torn = broken.commits("ranked")[-1]
    tear(torn)
    with pytest.raises(TableDamaged, match=r"ranked[./]ranked.*remove the commit's file"):
        broken.run()
    remove(torn)
    broken.run()
    broken.check()
    survived("refused: `TableDamaged`; continues without the file")
