"""Which files stay in memory."""

import polars as pl

from headwater.adapters.polars.file_cache import COLUMN_BYTES, FRAME_BYTES, FileCache

ROWS = pl.DataFrame({"n": pl.Series(range(10), dtype=pl.Int64)})
SIZE = FRAME_BYTES + COLUMN_BYTES + 80


def paths(cache: FileCache, *names: str) -> list[str]:
    return [name for name in names if cache.get(name) is not None]


def test_new_files_make_room_for_the_next_ones():
    cache = FileCache(limit=SIZE * 8)
    for name in "abcd":
        cache.put(name, ROWS)
        cache.get("a")
    assert paths(cache, *"abcd") == ["c", "d"]


def test_a_file_that_is_read_again_later_stays():
    cache = FileCache(limit=SIZE * 8)
    for name in "abca":
        cache.put(name, ROWS)
    for number in range(20):
        cache.put(f"new {number}", ROWS)
    assert paths(cache, "a", "b", "c") == ["a"]


def test_of_those_the_one_that_was_not_used_for_longest_goes():
    cache = FileCache(limit=SIZE * 8)
    again = [f"{number:02}" for number in range(7)]
    for name in [*again, "x", "y", *again[:-1]]:
        cache.put(name, ROWS)
    cache.get(again[0])
    cache.put(again[-1], ROWS)
    assert paths(cache, *again) == [again[0], *again[2:]]


def test_a_file_that_would_fill_much_of_it_is_not_kept():
    cache = FileCache(limit=SIZE * 3)
    cache.put("a", ROWS)
    assert paths(cache, "a") == []
