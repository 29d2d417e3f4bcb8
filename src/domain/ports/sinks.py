"""Where changes of a view are published to."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from typing import Any, Protocol

import narwhals as nw
from attrs import frozen

from ..epoch.epoch import Publication, Tally
from ..table.fingerprint import digest


@frozen
class Receipt:
    """A sink's record of the latest epoch that was published to it.

    Args:
        epoch: its number.
        state: a digest of the service's settings and the offsets.
        settings: the digest of all settings that the rows depend on, those of the source too; see `Publication`. None
            if unknown, as in receipts of old versions. Rows depend on nothing else, so tables that were moved, or
            rebuilt from the same epochs, continue to publish to the same sink.
        tally: the number of rows read so far; None if unknown, as in receipts of old versions. The same offsets may
            have other rows where a source was corrected; with as many rows, that is not noticed.
    """

    epoch: int
    state: str
    settings: str | None = None
    tally: Tally | None = None

    @classmethod
    def of(cls, publication: Publication) -> Receipt:
        state = json.dumps([digest(publication.fingerprint), publication.offsets], sort_keys=True)
        digest_ = hashlib.sha256(state.encode()).hexdigest()[:32]
        return cls(publication.epoch.number, digest_, publication.settings, publication.tally)

    def fits(self, publication: Publication) -> bool:
        """Whether a publication has the rows that this receipt is for, as far as both record it."""
        other = Receipt.of(publication)
        optional = ((self.settings, other.settings), (self.tally, other.tally))
        same = all(mine == theirs or None in {mine, theirs} for mine, theirs in optional)
        return same and (self.epoch, self.state) == (other.epoch, other.state)


class StreamSink(Protocol):
    """A feed of one view's changes. Each epoch is published atomically, in order, exactly once."""

    @abstractmethod
    def published(self) -> Receipt | None:
        """The receipt of the latest epoch in the sink; None if the sink has no epoch of this view.

        Raises:
            ConfigError: there is no such sink.
            SinkChanged: records of the same key would not follow those in the sink any more, its readers could not read
                them with the present settings, or the sink has the records of another view.
            SinkUnavailable: a temporary fault.
        """

    @abstractmethod
    def claim(self) -> Receipt | None:
        """Become the only writer: abort unfinished writes of other runs and fence them off. Returns `published`.

        Raises the same errors as `published`.
        """

    @abstractmethod
    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        """Publish the net changes of an epoch together with its receipt. Call `claim` before the first call.

        Args:
            changes: the view's columns and ``_row_kind``, in no particular order.
            publication: the epoch's publication.

        Raises:
            EpochConflict: another run has claimed the sink.
            SinkChanged: as for `published`; nothing was published.
            SinkUnavailable: a temporary fault; the next `claim` returns whether the epoch was published.
        """
