"""Which partitions of a Delta table are compacted."""

from __future__ import annotations

import pytest
from attrs import evolve

from headwater.adapters.delta.actions import DataFile
from headwater.adapters.delta.compaction_policy import CompactionPolicy, keeps_most, total_bytes
from headwater.adapters.delta.stored import DELETED, OPERATION

MEBIBYTE = 2**20


def files(*sizes: int, day: str = "1") -> list[DataFile]:
    return [DataFile(f"{day}/{at}", {"day": day}, size * MEBIBYTE, None, {}, {}, {}) for at, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "is_chosen"),
    [
        ([1] * 7, False),  # few files
        ([1] * 8, True),
        ([16, *[1] * 10], False),  # most of it has just been compacted
        ([16, *[1] * 11], True),
        ([128] * 10 + [1] * 63, False),
        ([128] * 10 + [1] * 64, True),  # many files, although all others are written again
        ([128, *[40] * 8], True),
        ([128] * 9, False),
    ],
)
def test_a_partition_is_compacted_if_enough_of_it_is_new(sizes: list[int], *, is_chosen: bool) -> None:
    there = files(*sizes)
    assert CompactionPolicy().choose(there) == (there if is_chosen else [])


@pytest.mark.parametrize(
    ("rows", "deletes", "is_chosen"),
    [
        ([3], [3], True),
        ([2, 1], [2, 1], True),
        ([5, 5, 4], [5], True),  # sums of the same keys
        ([3], [2], False),
        ([], [1], True),
        ([3], [], False),
        ([None], [3], False),  # old files may not say how many rows they have
    ],
)
def test_a_partition_is_compacted_if_its_rows_have_been_deleted(
    rows: list[int | None], deletes: list[int], *, is_chosen: bool
) -> None:
    other = files(*[1] * 7, day="2")
    there = [evolve(each, rows=count) for each, count in zip(files(*[1] * len(rows)), rows, strict=True)]
    there += [evolve(files(1)[0], rows=count, lowest={OPERATION: DELETED}) for count in deletes]
    assert CompactionPolicy().choose([*other, *there]) == (there if is_chosen else [])


def test_a_partition_that_grows_is_written_again_only_some_times() -> None:
    sizes, written = [], 0
    for _ in range(16):
        sizes += [1] * 16
        if chosen := CompactionPolicy(target_bytes=2**40).choose(files(*sizes)):
            sizes = [total_bytes(chosen) // MEBIBYTE]
            written += sizes[0]
    assert written <= 3 * sum(sizes)


@pytest.mark.parametrize(("rows", "kept", "waits"), [(100, 80, True), (100, 79, False), (None, None, False)])
def test_sums_that_a_compaction_left_as_they_were_wait_until_they_are_four_times_as_many(
    rows: int | None, kept: int | None, *, waits: bool
) -> None:
    before, after = ([evolve(each, rows=count) for each in files(1)] for count in (rows, kept))
    policy = CompactionPolicy().patient if keeps_most(before, after) else CompactionPolicy()
    assert bool(policy.choose(files(16, *[1] * 47))) is not waits
    assert policy.choose(files(16, *[1] * 49))


def test_the_rest_waits_for_the_next_compaction() -> None:
    some, more = files(*[1] * 9), files(*[1] * 8, day="2")
    policy = CompactionPolicy(max_bytes=10 * MEBIBYTE)
    assert policy.choose([*more, *some]) == some
