"""Tables of automata match what the regular expressions match that they are made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.adapters.records.shapes import automaton
from headwater.adapters.records.shapes.automaton import UnknownPattern, table_of
from headwater.adapters.records.shapes.cell import INTEGER, NUMBER, SCALAR, SOME_TEXT
from headwater.adapters.records.shapes.sample import ESCAPED_TEXT

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
PATTERNS = [
    f"({INTEGER})",
    f"(?:null|({NUMBER}))",
    SCALAR,
    SOME_TEXT,
    f'(?:null|"({ESCAPED_TEXT})")',
    r"(-?(?:[1-9][0-9]*|0)(?:\.[0-9]+)?)",
    r"(?:null|(true|false|0|1))",
    '"([A-Za-z0-9+/]*=?=?)"',
    rf'"({_DAY}T[0-9]{{2}}:[0-9]{{2}}:[0-5][0-9]\.[0-9]+Z)"',
    "([0-9]+)",
    "a{2}b{1,3}c?",
    "(?:ab|a)*",
    "",
]
BITS = ['"', "\\", "0", "12", "-", ".", ":", "null", "true", "ab", "c", "+/=", "\x01", "é", "2026-01-31T10:59:08.25Z"]


def longest(table: bytes, text: bytes) -> int | None:
    """How much of a text matches, as match.c finds it."""
    state, found = 1, 0 if table[1] else None
    for at, byte in enumerate(text, 1):
        state = table[256 * state + byte]
        if not state:
            break
        if table[state]:
            found = at
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=40)
@given(st.lists(st.sampled_from(BITS), max_size=5).map("".join))
def test_a_table_matches_what_its_pattern_matches(pattern: str, text: str) -> None:
    data = text.encode()
    matching = [size for size in range(len(data) + 1) if re.fullmatch(pattern.encode(), data[:size])]
    assert longest(table_of(pattern), data) == max(matching, default=None)


@pytest.mark.parametrize("pattern", PATTERNS[:-3])
@settings(max_examples=40)
@given(st.data())
def test_every_text_of_a_pattern_matches(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True)).encode()
    assert longest(table_of(pattern), text) == len(text)


@pytest.mark.parametrize("pattern", ["a$", "^a", "a.b", r"\d", "(a", "a)", "[ab", "é", "*a", "a{2"])
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UnknownPattern):
        table_of(pattern)


def test_a_pattern_with_more_states_than_a_byte_counts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "_MOST_STATES", 5)
    assert table_of("x{4}")
    with pytest.raises(UnknownPattern):
        table_of("x{5}")
