"""Which chunks are read next: in order, a few at a time, failed ones again after a pause, and small offsets."""

import json

from attrs import define, field

from headwater.adapters.shared.chunks import MOST_LEFT, Chunks, Progress


@define
class Table:
    """A table of so many chunks, some of which cannot be read."""

    size: int
    broken: set[int] = field(factory=set)
    damaged: set[int] = field(factory=set)
    tried: list[int] = field(factory=list)

    def cut(self, frontier):
        at = frontier or 0
        return (at, at + 1) if at < self.size else None

    def attempt(self, piece):
        self.tried.append(piece)
        return piece, "it is broken" if piece in self.broken else None

    def read_through(self, piece):
        return piece, "it is damaged" if piece in self.damaged else self.attempt(piece)[1]


def chunks(table, at_once=1):
    return Chunks(table.cut, table.attempt, at_once, table.read_through)


def read(planner, after=None, plans=1):
    """The numbers of the chunks of each epoch, and the offsets behind them."""
    found = []
    for _ in range(plans):
        if planned := planner.plan(after):
            after = json.loads(json.dumps(planned.until))
            found.append([chunk.number for chunk in Progress.of(after).reads])
    return found, after


def test_chunks_come_in_order_so_many_at_once():
    found, after = read(chunks(Table(5), at_once=2), plans=4)
    assert found == [[0, 1], [2, 3], [4]]
    assert after == {"chunks": 5, "next": 5, "frontier": 5, "left": [], "reads": [[4, 4]]}


def test_a_failed_chunk_is_passed_over_and_tried_again_after_ever_longer_pauses():
    table = Table(40, broken={1})
    planner = chunks(table)
    found, after = read(planner, plans=20)
    assert found == [[0], *([number] for number in range(2, 21))]
    assert (after["chunks"], after["left"]) == (20, [[1, 1]])
    assert [at for at, piece in enumerate(table.tried) if piece == 1] == [1, 3, 6, 11, 20]
    assert planner.trouble == ("chunk 1: it is broken",)


def test_a_failed_chunk_that_can_be_read_again_is_read_once_and_no_longer_told_of():
    table = Table(4, broken={1, 3})
    planner = chunks(table)
    found, after = read(planner, plans=4)
    table.broken.clear()
    more, after = read(planner, after, plans=70)
    assert sorted(found + more) == [[0], [1], [2], [3]]
    assert (after["chunks"], after["left"], planner.trouble) == (4, [], ())


def test_another_process_tries_it_at_once():
    table = Table(3, broken={1})
    _, after = read(chunks(table), plans=5)
    table.broken.clear()
    assert read(chunks(table), after)[0] == [[1]]


def test_a_table_that_cannot_be_read_at_all_makes_no_epochs_and_keeps_the_offsets_small():
    table = Table(1000, broken=set(range(1000)))
    planner = chunks(table)
    assert read(planner, plans=50) == ([], None)
    assert len(planner.trouble) == MOST_LEFT
    table.broken = set(range(20))
    assert read(chunks(table), plans=3) == ([], None)


def test_a_chunk_that_fails_while_it_is_read_is_set_aside_and_all_others_are_read_through_first():
    table = Table(5, damaged={1, 3})
    planner = chunks(table, at_once=2)
    planned = planner.plan(None)
    assert planner.set_aside(planned) == ("chunk 1: it is damaged",)
    assert planner.has_failed(planned)
    found, after = read(planner, plans=3)
    assert found == [[0, 2], [4]]
    assert planner.trouble == ("chunk 1: it is damaged", "chunk 3: it is damaged")
    assert read(chunks(table), after)[0] == []
    table.damaged.clear()
    assert read(chunks(table, at_once=2), after)[0] == [[1, 3]]


def test_nothing_is_set_aside_if_all_chunks_can_be_read():
    planner = chunks(Table(2))
    planned = planner.plan(None)
    assert planner.set_aside(planned) == ()
    assert not planner.has_failed(planned)
