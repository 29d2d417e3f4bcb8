"""Turns of the threads of a program."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from headwater.app.run.turn import Turn


def test_a_thread_that_waits_is_the_next_one() -> None:
    turn, taken, waits, order = Turn(), Event(), Event(), list[str]()

    def run() -> None:
        for _ in range(3):
            with turn, turn:  # the work of a turn may take it again
                order.append("run")
                taken.set()
                assert waits.wait(10)
                while not turn._next.locked() and "ask" not in order:  # the other thread is about to wait
                    pass

    def ask() -> None:
        assert taken.wait(10)
        waits.set()
        with turn:
            order.append("ask")

    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(run), threads.submit(ask)]:
            each.result(20)
    assert order == ["run", "ask", "run", "run"]
