"""Marks as text, and texts that are not marks."""

import pytest

from headwater.domain.epoch.epoch import Mark
from headwater.domain.errors import TableDamaged
from headwater.testing.store_harness import mark_of


def test_a_mark_is_read_back_as_it_was_written():
    assert Mark.from_json(mark_of(2).to_json()) == mark_of(2)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"epoch": 1}', mark_of(2).to_json().replace("writer", "x")]
)
def test_any_other_text_is_told_with_its_commit(text):
    with pytest.raises(TableDamaged, match=r"^version 7 of lake/r carries a mark that cannot be read .*from a backup"):
        Mark.from_json(text, "version 7 of lake/r")
