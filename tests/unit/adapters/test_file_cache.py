"""Which files stay in memory."""

import polars as pl
import pytest

from headwater.adapters.polars.file_cache import FileCache

ROWS = pl.DataFrame({"n": pl.Series(range(10), dtype=pl.Int64)})
SIZE = 80 + 2048
"""The bytes of its values, and what the frame and its column take."""


def paths(cache: FileCache, *names: str) -> list[str]:
    return [name for name in names if cache.get(name) is not None]


def test_new_files_make_room_for_the_next_ones():
    cache = FileCache(limit=SIZE * 16)
    for name in "abcd":
        cache.put(name, ROWS)
        cache.get("a")
    assert paths(cache, *"abcd") == ["c", "d"]


def test_a_file_that_is_read_again_later_stays():
    cache = FileCache(limit=SIZE * 16)
    for name in "abca":
        cache.put(name, ROWS)
    for number in range(20):
        cache.put(f"new {number}", ROWS)
    assert paths(cache, "a", "b", "c") == ["a"]


def test_of_those_the_one_that_was_not_used_for_longest_goes():
    cache = FileCache(limit=SIZE * 16)
    again = [f"{number:02}" for number in range(15)]
    for name in [*again, "x", "y", *again[:-1]]:
        cache.put(name, ROWS)
    cache.get(again[0])
    cache.put(again[-1], ROWS)
    assert paths(cache, *again) == [again[0], *again[2:]]


def test_a_file_that_would_fill_much_of_it_is_not_kept():
    cache = FileCache(limit=SIZE * 3)
    cache.put("a", ROWS)
    assert paths(cache, "a") == []


@pytest.mark.parametrize("cut", [lambda rows: rows.filter(pl.col("n") == 7), lambda rows: rows.slice(7, 1)])
def test_a_row_does_not_keep_the_texts_of_those_that_it_was_cut_from(cut):
    cache = FileCache(limit=8 * 1024 * 1024)
    row = cut(pl.DataFrame({"n": range(1000), "text": ["x" * 1000] * 1000}))
    assert row.to_arrow(compat_level=pl.CompatLevel.newest()).get_total_buffer_size() > 100_000
    cache.put("a", row)
    kept = cache.get("a")
    assert kept is not None
    assert kept.equals(row)
    assert kept.schema == row.schema
    assert kept.to_arrow(compat_level=pl.CompatLevel.newest()).get_total_buffer_size() < 10_000


def test_what_a_frame_keeps_besides_its_rows_counts():
    text = pl.DataFrame({"n": range(1000), "text": ["x" * 1000] * 1000})
    cache = FileCache(limit=8 * 1_200_000)
    for name in "abc":
        cache.put(name, text.filter(pl.col("n") < 700))
    assert paths(cache, *"abc") == ["c"]
