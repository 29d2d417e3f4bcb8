"""Which partitions of a Delta table are compacted."""

from __future__ import annotations

import pytest
from attrs import evolve

from headwater.adapters.delta.actions import DataFile, total_bytes
from headwater.adapters.delta.compaction_policy import CompactionPolicy, files_of, keeps_most, with_operations
from headwater.adapters.delta.stored import DELETED, OPERATION
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec

MEBIBYTE = 2**20


def chosen_by(policy: CompactionPolicy, there: list[DataFile]) -> list[DataFile]:
    return files_of(policy.choose(there))


def files(*sizes: int, day: str = "1") -> list[DataFile]:
    return [DataFile(f"{day}/{at}", {"day": day}, size * MEBIBYTE, None, {}, {}, {}) for at, size in enumerate(sizes)]


@pytest.mark.parametrize("operation", [DELETED, "d"])
def test_a_users_column_op_is_no_operation(operation: object) -> None:
    bounds = {OPERATION: operation}
    there = [evolve(each, rows=1, lowest=bounds, highest=bounds) for each in files(*[128] * 8)]
    assert CompactionPolicy().choose(with_operations(there, TableSpec("p.published", Schema(()), whole=True))) == []
    log = TableSpec("p.rows", Schema.parse("id bigint"), key=("id",))
    assert list(with_operations(there, log)) == there


@pytest.mark.parametrize(
    ("sizes", "is_chosen"),
    [
        ([1] * 7, False),  # few files
        ([1] * 8, True),
        ([16, *[1] * 10], False),  # most of it has just been compacted
        ([16, *[1] * 11], True),
        ([128] * 10 + [1] * 63, False),
        ([128, *[40] * 8], True),
        ([128] * 9, False),
    ],
)
def test_a_partition_is_compacted_if_enough_of_it_is_new(sizes: list[int], *, is_chosen: bool) -> None:
    there = files(*sizes)
    assert chosen_by(CompactionPolicy(), there) == (there if is_chosen else [])
    assert all(each.whole for each in CompactionPolicy().choose(there))


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ([*[128] * 10, *[1] * 64], 64),  # the others are not written again
        ([*[128] * 10, *[1] * 60, *[40] * 4], 60),  # nor are a few results of such compactions
        ([*[128] * 10, *[1] * 60, *[40] * 8], 68),
        ([*[128] * 10, *[1] * 60, *[9] * 7, *[40] * 2], 60),
        ([*[128] * 10, *[1] * 9, *[9] * 60, *[40] * 2], 69),
    ],
)
def test_of_a_partition_with_many_small_files_and_little_that_is_new_only_these_are_brought_together(
    sizes: list[int], chosen: int
) -> None:
    there = files(*sizes)
    rewrites = CompactionPolicy().choose(there)
    assert sorted(file.size for file in files_of(rewrites)) == sorted(file.size for file in there)[:chosen]
    assert not any(each.whole for each in rewrites)


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
    assert chosen_by(CompactionPolicy(), [*other, *there]) == (there if is_chosen else [])


def test_a_partition_that_grows_is_written_again_only_some_times() -> None:
    sizes, written = [], 0
    for _ in range(16):
        sizes += [1] * 16
        if chosen := chosen_by(CompactionPolicy(target_bytes=2**40), files(*sizes)):
            sizes = [total_bytes(chosen) // MEBIBYTE]
            written += sizes[0]
    assert written <= 3 * sum(sizes)


def test_small_epochs_do_not_write_a_large_partition_again() -> None:
    """Each of their rows is written at most four times more; a file of changes counts as new, however large it is."""
    old, epochs, written, most = 10_000 * MEBIBYTE, 20_000, 0, 0
    policy = CompactionPolicy(target_bytes=1000 * MEBIBYTE)
    there = [evolve(files(1)[0], size=old, lowest={OPERATION: 0}, highest={OPERATION: 0})]
    for epoch in range(epochs):
        there.append(evolve(files(1)[0], path=str(epoch), size=MEBIBYTE // 10, highest={OPERATION: 1}))
        most = max(most, len(there))
        if epoch % 16 == 15:
            for rewrite in policy.choose(there):
                written += total_bytes(rewrite.files)
                result = evolve(rewrite.files[0], size=total_bytes(rewrite.files))
                there = [file for file in there if file not in rewrite.files]
                there.append(result)
    assert written <= 4 * epochs * MEBIBYTE // 10
    assert most <= 80


def test_changes_in_large_files_count_as_new() -> None:
    changes = evolve(files(7000)[0], highest={OPERATION: 1})
    there = [evolve(files(9000)[0], highest={OPERATION: 0}), changes, *files(*[1] * 8)]
    assert chosen_by(CompactionPolicy(), there) == there
    assert not CompactionPolicy().choose([there[0], evolve(changes, highest={OPERATION: 0}), *there[2:]])


@pytest.mark.parametrize(("old", "is_chosen"), [(10, True), (20, False)])
def test_rows_that_repeat_count_though_they_take_few_bytes(old: int, *, is_chosen: bool) -> None:
    base, *changes = files(1000, *[1] * 8)
    there = [evolve(base, rows=old), *(evolve(each, rows=1) for each in changes)]
    assert bool(CompactionPolicy().choose(there)) is is_chosen


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
    assert chosen_by(policy, [*more, *some]) == some
