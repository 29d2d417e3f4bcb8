"""What a piece of work may hold in memory."""

import pytest

from headwater.adapters.memory_limit import check_room, hold_files, hold_rows, limited_to
from headwater.domain.errors import EngineLimit

MIB = 1024 * 1024


def test_without_a_limit_everything_fits():
    hold_rows(10**15)
    check_room(10**15)


def test_rows_add_up():
    with limited_to(3 * MIB):
        hold_rows(2 * MIB)
        check_room(MIB)
        with pytest.raises(EngineLimit, match="needs about 4 MiB of memory, and local_mb allows 3 MiB") as caught:
            hold_rows(2 * MIB)
    assert not caught.value.lasting


def test_what_is_needed_is_shown_as_more_than_what_is_allowed():
    for limit, shown in ((MIB, "about 2 MiB of memory, and local_mb allows 1 MiB"), (MIB // 2, "about 1 MiB .* 0 MiB")):
        with limited_to(limit), pytest.raises(EngineLimit, match=shown):
            hold_rows(limit + 1)


def test_what_is_only_checked_is_not_counted():
    with limited_to(10):
        check_room(8)
        check_room(8)
        hold_rows(2)
        with pytest.raises(EngineLimit):
            check_room(9)


def test_a_file_counts_once():
    with limited_to(10):
        hold_files([("a", 6)])
        hold_files([("a", 6), ("b", 4)])
        with pytest.raises(EngineLimit):
            hold_files([("c", 1)])


def test_work_inside_of_work_has_its_own_limit():
    with limited_to(10):
        hold_rows(8)
        with limited_to(20):
            hold_rows(15)
        hold_rows(2)
        with pytest.raises(EngineLimit):
            hold_rows(1)
