"""Commits of a Delta log, parsed from their text."""

from __future__ import annotations

import json

import pytest

from headwater.adapters.delta.actions import ACTIONS, CommitFile

ADDED = {"path": "a.parquet", "partitionValues": {}, "size": 1}


def commit(stats: str = "{}", **info: object) -> str:
    """The text of a commit that adds a file, with characters as they are, as Spark writes them."""
    lines = [{"commitInfo": {"timestamp": 1000, **info}}, {"add": {**ADDED, "stats": stats}}]
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)


def test_separators_of_lines_inside_a_text() -> None:
    text = commit(json.dumps({"minValues": {"name": "a\u2028b\x85c"}}, ensure_ascii=False))
    assert CommitFile.parse(text).added[0].lowest == {"name": "a\u2028b\x85c"}


@pytest.mark.parametrize(("text", "problem"), [("", "empty"), ("\n", "empty")])
def test_an_empty_commit(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CommitFile.parse(text)


def test_a_commit_without_its_last_line() -> None:
    text = commit(operationMetrics={ACTIONS: "2"})
    assert CommitFile.parse(text).added
    with pytest.raises(ValueError, match="cut off"):
        CommitFile.parse(text.splitlines()[0])


def test_a_commit_of_another_writer_need_not_tell_its_lines() -> None:
    assert CommitFile.parse(commit(operationMetrics=None)).added
    assert CommitFile.parse(commit(operationMetrics={"numFiles": "1"})).added
