"""Receipts of what a sink holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from attrs import evolve

from headwater.domain.epoch.epoch import Epoch, Publication, Tally
from headwater.domain.ports import Receipt

PUBLISHED = Publication(Epoch("p", 3), {}, {"rows": 9}, None, datetime(2024, 3, 1, tzinfo=UTC), "", tally=Tally(9, 1))


@pytest.mark.parametrize("tally", [Tally(8, 1), Tally(9, 0)])
def test_the_same_offsets_with_another_number_of_rows_do_not_fit(tally: Tally) -> None:
    """A file was corrected, for example, and has its old name and size."""
    assert not Receipt.of(PUBLISHED).fits(evolve(PUBLISHED, tally=tally))


@pytest.mark.parametrize("known", [PUBLISHED, evolve(PUBLISHED, tally=None)])
def test_a_number_of_rows_that_is_not_known_fits(known: Publication) -> None:
    assert Receipt.of(known).fits(PUBLISHED)
    assert Receipt.of(PUBLISHED).fits(known)
