"""How old an answer may be: the arithmetic, and results for publications made in the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.domain.epoch.epoch import Epoch, Publication
from headwater.domain.ledger import latency
from headwater.domain.ledger.latency import Span

START = datetime(2024, 3, 10, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def publication(pipeline: str, number: int, began: float | None, ended: float) -> Publication:
    """An epoch from one second to another."""
    since = None if began is None else START + began * SECOND
    return Publication(Epoch(pipeline, number), {}, {}, None, START + ended * SECOND, "settings", began_at=since)


def exactly(duration: timedelta) -> Span:
    return Span(duration, duration)


class TestExpected:
    def test_a_record_right_before_its_epoch_or_right_after_the_one_before(self) -> None:
        assert latency.of_stream(exactly(5 * SECOND), SECOND) == Span(5 * SECOND, 11 * SECOND)
        assert latency.of_stream(Span(2 * SECOND, 5 * SECOND), SECOND) == Span(2 * SECOND, 11 * SECOND)

    def test_a_batch_stage_from_c_plus_e_to_all_that_can_be_missed(self) -> None:
        c, d, b, e = 5 * SECOND, 10 * SECOND, 15 * MINUTE, 2 * MINUTE
        stream = latency.of_stream(exactly(c), d)
        assert latency.of_batch([stream], exactly(e), b) == Span(c + e, (c + d + c) + (b + e))

    def test_of_several_inputs_the_quickest_and_the_slowest(self) -> None:
        quick, slow = Span(SECOND, 3 * SECOND), Span(10 * SECOND, 90 * SECOND)
        assert latency.of_batch([slow, quick], exactly(MINUTE), MINUTE) == Span(61 * SECOND, 210 * SECOND)

    def test_tables_of_the_users_own_are_as_new_as_the_batch(self) -> None:
        assert latency.of_batch([], exactly(MINUTE), 5 * MINUTE) == Span(MINUTE, 6 * MINUTE)

    def test_stages_upon_stages_add_up(self) -> None:
        first = latency.of_batch([exactly(SECOND)], exactly(SECOND), MINUTE)
        assert latency.of_batch([first], exactly(SECOND), MINUTE) == Span(3 * SECOND, 123 * SECOND)


class TestMeasured:
    def test_epochs_take_from_their_beginning_to_their_publication(self) -> None:
        three = [publication("p", 2, 20, 23), publication("p", 1, None, 12), publication("p", 0, 0, 1)]
        assert latency.epochs(three) == Span(SECOND, 3 * SECOND)
        assert latency.epochs(three[1:2]) is None
        assert latency.epochs([]) is None

    def test_a_clock_that_was_set_back_meanwhile_does_not_count(self) -> None:
        set_back = publication("p", 1, 20, 12)
        assert latency.epochs([set_back, publication("p", 0, 0, 1)]) == exactly(SECOND)
        assert latency.epochs([set_back]) is None
        versions = [publication("out", 1, 30, 19), publication("out", 0, 5, 6)]
        assert latency.versions(versions, {0: {}, 1: {"in": 1}}, {"in": {1: set_back}}) is None

    def test_a_version_is_as_late_as_the_oldest_epoch_that_is_new_in_it(self) -> None:
        epochs = {number: publication("in", number, 10 * number, 10 * number + 1) for number in range(6)}
        versions = [publication("out", 2, 60, 62), publication("out", 1, 30, 33), publication("out", 0, 5, 6)]
        read = {0: {"in": 0}, 1: {"in": 2}, 2: {"in": 5}}
        # Version 1 brought epochs 1 and 2, begun at 10 and 20; version 2 epochs 3 to 5, begun at 30 to 50.
        assert latency.versions(versions, read, {"in": epochs}) == Span(12 * SECOND, 32 * SECOND)
        assert latency.versions(versions[1:], read, {"in": epochs}) == Span(13 * SECOND, 23 * SECOND)

    def test_what_a_version_had_already_or_is_not_known_does_not_count(self) -> None:
        versions = [publication("out", 1, 30, 33), publication("out", 0, 5, 6)]
        known = {"in": {0: publication("in", 0, 0, 1), 1: publication("in", 1, None, 20)}}
        assert latency.versions(versions, {0: {"in": 0}, 1: {"in": 0}}, known) is None
        assert latency.versions(versions, {0: {"in": 0}, 1: {"in": 1}}, known) is None
        assert latency.versions(versions[:1], {1: {"in": 0}}, known) is None

    def test_an_input_that_is_new_counts_from_its_first_epoch(self) -> None:
        versions = [publication("out", 1, 30, 33), publication("out", 0, 5, 6)]
        known = {"in": {0: publication("in", 0, 3, 4)}}
        for before in ({}, {"in": None}):
            found = latency.versions(versions, {0: before, 1: {"in": 0, "table": None}}, known)
            assert found == exactly(30 * SECOND)


def test_a_span_is_told_in_one_line() -> None:
    assert str(Span(SECOND, 90 * SECOND)) == "1s to 1m30s"
    assert str(exactly(1.25 * SECOND)) == "1.2s"
