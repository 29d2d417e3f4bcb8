"""Counts the rows that become dead letters in a run, and warns if there are many."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from ...domain.epoch.epoch import Epoch, Tally
from ...domain.errors import BadInput
from ...domain.service.base import Step
from ...domain.service.history_load import loading_table
from ...domain.source import dead_letter

_log = logging.getLogger(__name__)
_REASONS, _TABLES = 3, 5


@frozen
class Loss:
    """The dead letters of an epoch that exceeds the limit."""

    epoch: Epoch
    tally: Tally
    reasons: tuple[tuple[str, int], ...]


@define(eq=False)
class Losses:
    """Counts the dead letters of one pipeline in one run.

    Args:
        pipeline: its name.
        limit: of an epoch; the run warns if an epoch exceeds it.
        stop: the run stops if the pipeline's first rows, at least this many, are all dead letters; 0 for never.
    """

    pipeline: str
    limit: dead_letter.Limit
    stop: int
    _tally: Tally = field(init=False, factory=Tally)
    _beyond: Tally = field(init=False, factory=Tally)
    """The rows of the epochs that exceed the limit …"""
    _reasons: Counter[str] = field(init=False, factory=Counter)
    """… and the reasons of their dead letters."""
    _warned: bool = field(init=False, default=False)
    _summarized: int = field(init=False, default=0)

    def check(self, epoch: Epoch, step: Step, so_far: Tally | None) -> Loss | None:
        """Return the loss of an epoch if it exceeds the limit, else None. Call this before anything is committed.

        Args:
            epoch: the epoch.
            step: its changes.
            so_far: counts of the pipeline including this epoch; None if they were not kept from the beginning.

        Raises:
            BadInput: all rows that the pipeline has ever read are dead letters, at least `stop` of them.
        """
        lost = Tally(step.rows, step.dead_letters)
        hopeless = so_far is not None and 0 < self.stop <= so_far.rows == so_far.dead_letters
        if not hopeless and not self.limit.exceeded(lost.rows, lost.dead_letters):
            return None
        table = dead_letter.table(self.pipeline)
        change = step.changes.get(table, step.changes.get(loading_table(table)))
        rows = None if change is None else change.append
        loss = Loss(epoch, lost, () if rows is None else tuple(dead_letter.reasons(rows, _REASONS)))
        if hopeless and so_far is not None and lost.rows:
            raise BadInput(
                f"pipeline {self.pipeline!r}: the first {so_far.rows:,} rows that it has read are all dead letters"
                f" ({_list_counts(loss.reasons)}); nothing of epoch {epoch.number} is published. Correct the schema or"
                f" the format of its source; to skip such rows, set dead_letter_stop = 0 under [run]"
            )
        return loss

    def add(self, step: Step, loss: Loss | None, passed_over: Mapping[str, int]) -> None:
        """Count a published epoch. Warn of its loss, and once if all of its messages were skipped.

        Args:
            step: its changes.
            loss: see `check`.
            passed_over: the number of skipped messages, by table.
        """
        self._tally = self._tally.plus(step.rows, step.dead_letters)
        if passed_over and not self._tally.rows and not self._warned:
            self._warned = True
            _log.warning(
                "%s: no message belongs to a table that is read; skipped: %s; correct `tables` of the source",
                self.pipeline,
                _list_counts(Counter(passed_over).most_common(_TABLES), " of "),
            )
        if loss is None:
            return
        self._beyond = self._beyond.plus(loss.tally.rows, loss.tally.dead_letters)
        self._reasons.update(dict(loss.reasons))
        _log.warning(
            "%s epoch %d: %s became dead letters, more than dead_letter_limit = %s: %s",
            self.pipeline,
            loss.epoch.number,
            _share(loss.tally),
            self.limit.text,
            _list_counts(loss.reasons),
        )

    def summarize(self) -> None:
        """Log the dead letters of the run at its end, if an epoch exceeded the limit; again only if more have come."""
        if self._reasons and self._tally.dead_letters != self._summarized:
            self._summarized = self._tally.dead_letters
            some = f", {self._beyond.dead_letters:,} of them in epochs beyond dead_letter_limit"
            _log.warning(
                "%s: in this run %s became dead letters%s: %s; `headwater dead-letters` lists them",
                self.pipeline,
                _share(self._tally),
                "" if self._beyond.dead_letters == self._tally.dead_letters else some,
                _list_counts(self._reasons.most_common(_REASONS)),
            )


def _share(tally: Tally) -> str:
    """Format a share: ``12 of 30 rows (40 %)``."""
    rows = f"{tally.rows:,} row{'' if tally.rows == 1 else 's'}"
    return f"{tally.dead_letters:,} of {rows} ({100 * tally.dead_letters / tally.rows:.0f} %)"


def _list_counts(counts: Sequence[tuple[str, int]], of: str = " x ") -> str:
    return "; ".join(f"{count:,}{of}{what}" for what, count in counts)
