"""Marks as text, and texts that are not marks."""

import json
from datetime import UTC, datetime

import pytest
from attrs import evolve

from headwater.domain.epoch.epoch import Mark, Publication
from headwater.domain.errors import TableDamaged
from headwater.testing.store_harness import mark_of


def test_a_mark_is_read_back_as_it_was_written():
    assert Mark.from_json(mark_of(2).to_json()) == mark_of(2)


def test_a_mark_names_an_engine_only_if_it_has_one():
    named = evolve(mark_of(2), engine="spark")
    assert Mark.from_json(named.to_json()) == named
    assert "engine" not in mark_of(2).to_json()


def test_a_commit_of_another_engine_is_not_taken_up():
    named = evolve(mark_of(2), engine="spark")
    work = named.epoch, named.offsets, named.fingerprint
    assert [named.holds(*work, engine) for engine in ("spark", "local", None)] == [True, False, False]


def test_a_mark_names_settings_only_if_it_has_some():
    named = evolve(mark_of(2), settings="digest")
    assert Mark.from_json(named.to_json()) == named
    assert "settings" not in json.loads(mark_of(2).to_json())


def test_a_mark_names_rows_only_if_they_were_counted():
    counted = evolve(mark_of(2), rows=0)
    assert Mark.from_json(counted.to_json()) == counted
    assert "rows" not in json.loads(mark_of(2).to_json())


def test_a_publication_names_settings_only_if_it_has_some():
    mark = mark_of(2)
    bare = Publication(mark.epoch, {}, {}, None, datetime(2024, 3, 1, tzinfo=UTC), "settings")
    for publication, recorded in ((bare, False), (evolve(bare, settings="digest"), True)):
        published = evolve(mark, publication=publication)
        assert Mark.from_json(published.to_json()) == published
        assert ("settings" in json.loads(published.to_json())["publication"]) is recorded


@pytest.mark.parametrize(("recorded", "taken_up"), [("digest", True), ("other", False), (None, True)])
def test_a_commit_with_other_settings_is_not_taken_up(recorded, taken_up):
    """Marks of old versions record none."""
    named = evolve(mark_of(2), settings=recorded)
    assert named.holds(named.epoch, named.offsets, named.fingerprint, settings="digest") == taken_up


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"epoch": 1}', mark_of(2).to_json().replace("writer", "x")]
)
def test_any_other_text_is_told_with_its_commit(text):
    with pytest.raises(TableDamaged, match=r"^version 7 of lake/r carries a mark that cannot be read .*from a backup"):
        Mark.from_json(text, "version 7 of lake/r")
