"""What a run loses to the dead letters, said where it is much."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ..domain import dead_letter
from ..domain.epoch import Tally
from ..domain.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..domain.epoch import Epoch
    from ..domain.service import Step

_log = logging.getLogger(__name__)
_REASONS, _TABLES = 3, 5


@frozen
class Loss:
    """The rows of an epoch that became dead letters, where they are more than the limit.

    Args:
        epoch: which.
        tally: its rows.
        reasons: the most frequent ones, each with the number of its rows.
    """

    epoch: Epoch
    tally: Tally
    reasons: tuple[tuple[str, int], ...]


@define(eq=False)
class Losses:
    """The losses of one pipeline in one run.

    Args:
        pipeline: its name.
        limit: of an epoch; what exceeds it is warned of.
        stop: the run stops where the pipeline's first rows, at least so many, are all lost; 0 for never.
    """

    pipeline: str
    limit: dead_letter.Limit
    stop: int
    _tally: Tally = field(init=False, factory=Tally)
    _reasons: Counter[str] = field(init=False, factory=Counter)
    _warned: bool = field(init=False, default=False)

    def check(self, epoch: Epoch, step: Step, so_far: Tally | None) -> Loss | None:
        """What an epoch loses if that is more than the limit; call it before anything is committed.

        Args:
            epoch: which.
            step: what it does.
            so_far: of the pipeline, this epoch with it; None if it was not counted from the beginning.

        Raises:
            BadInput: all rows that the pipeline has ever read are lost, and they are many.
        """
        lost = Tally(step.rows, step.dead_letters)
        hopeless = so_far is not None and 0 < self.stop <= so_far.rows == so_far.dead_letters
        if not hopeless and not self.limit.exceeded(lost.rows, lost.dead_letters):
            return None
        change = step.changes.get(dead_letter.table(self.pipeline))
        letters = None if change is None else change.append
        loss = Loss(epoch, lost, () if letters is None else tuple(dead_letter.reasons(letters, _REASONS)))
        if hopeless and so_far is not None and lost.rows:
            raise BadInput(
                f"pipeline {self.pipeline!r}: the first {so_far.rows:,} rows that it has read are all dead letters"
                f" ({_told(loss.reasons)}); nothing of epoch {epoch.number} is published. Correct the schema or the"
                f" format of its source; if the rows are to be passed over, set dead_letter_stop = 0 under [run]"
            )
        return loss

    def add(self, step: Step, loss: Loss | None, passed_over: Mapping[str, int]) -> None:
        """Count an epoch that is published; warn of what it loses, and once where all of its messages are passed over.

        Args:
            step: what it did.
            loss: see `check`.
            passed_over: how many messages of which tables it did not read.
        """
        self._tally = self._tally.plus(step.rows, step.dead_letters)
        if passed_over and not self._tally.rows and not self._warned:
            self._warned = True
            _log.warning(
                "%s: none of the messages is of a table that is read; passed over: %s; correct `tables` of the source",
                self.pipeline,
                _told(Counter(passed_over).most_common(_TABLES), " of "),
            )
        if loss is None:
            return
        self._reasons.update(dict(loss.reasons))
        _log.warning(
            "%s epoch %d: %s went to the dead letters, more than dead_letter_limit = %s: %s",
            self.pipeline,
            loss.epoch.number,
            _share(loss.tally),
            self.limit.text,
            _told(loss.reasons),
        )

    def summarize(self) -> None:
        """Say at the end of a run what it has lost, if an epoch of it lost much."""
        if self._reasons:
            _log.warning(
                "%s: in this run %s went to the dead letters: %s; `headwater dead-letters` lists them",
                self.pipeline,
                _share(self._tally),
                _told(self._reasons.most_common(_REASONS)),
            )


def _share(tally: Tally) -> str:
    """How many of how many: ``12 of 30 rows (40 %)``."""
    rows = f"{tally.rows:,} row{'' if tally.rows == 1 else 's'}"
    return f"{tally.dead_letters:,} of {rows} ({100 * tally.dead_letters / tally.rows:.0f} %)"


def _told(counts: Sequence[tuple[str, int]], of: str = " x ") -> str:
    return "; ".join(f"{count:,}{of}{what}" for what, count in counts)
