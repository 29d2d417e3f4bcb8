"""What a service remembers."""

from __future__ import annotations

from headwater.domain.service.memo import Memo


def test_the_last_answers_are_remembered() -> None:
    asked, memo = list[int](), Memo[int, int | None](2)

    def find(number: int) -> int | None:
        def answer() -> int | None:
            asked.append(number)
            return number or None

        return memo.find(number, answer)

    assert [find(each) for each in (0, 1, 0, 1, 2, 1, 0)] == [None, 1, None, 1, 2, 1, None]
    assert asked == [0, 1, 2, 0]
