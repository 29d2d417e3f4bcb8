"""Epochs, the offsets they cover, the batches they hold and the mark they leave in a commit."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
from attrs import asdict, field, frozen

from .errors import EpochConflict, TableDamaged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .bulk import KeyRange
    from .input import Input

Offsets: TypeAlias = "Mapping[str, Any]"
"""Where a source stands: JSON values only, whose meaning is the source's own."""


@frozen(order=True)
class Epoch:
    """One micro-batch of one pipeline; numbered from 0."""

    pipeline: str
    number: int


@frozen
class OffsetRange:
    """What an epoch reads: all after `after` (None: from the beginning) up to and with `until`."""

    after: Offsets | None
    until: Offsets


@frozen(eq=False)
class Batch:
    """The rows of one epoch.

    `rows` is lazy. Beside the source's own columns it has:

    * ``_row_kind`` string: ``+I -U +U -D``; null where it could not be decoded;
    * ``_position`` bigint: order of arrival inside the batch;
    * ``_origin`` string: the file that the row came from, or ``topic/partition@offset``;
    * ``_raw`` string: the record as it came (the row as JSON where it came typed), for people where it is no UTF-8;
    * ``_bytes`` binary: the record as it came, where ``_raw`` in UTF-8 would not be it; else null;
    * ``_error`` string: why it could not be decoded, its other columns being null then; else null.

    Args:
        epoch: which.
        rows: see above.
        offsets: what they were read from.
        format: of the records, as the source names it.
        again: the rows are dead letters read once more: they come late to everything, and are no repeats.
        topics: of a topic group, the rows of each topic that brought some, which together are `rows`: what is asked of
            one topic is planned quicker there.
        inputs: of a pipeline that reads others: each input, by the name that it goes by; `rows` has none.
        lanes: several logs are read side by side: `_position` orders the rows of one `lane` as they arrived, and says
            nothing of rows of different ones.
        remaining: of a bulk load: ranges of the first key column that chunks yet to be read may hold; None where that
            is not told.
        ranges: of a bulk load that another read of the same chunks would bring otherwise: what their keys lie in, by
            the chunks' numbers.
    """

    epoch: Epoch
    rows: nw.LazyFrame[Any]
    offsets: OffsetRange
    format: str
    again: bool = False
    topics: Mapping[str, nw.LazyFrame[Any]] = field(factory=dict)
    inputs: Mapping[str, Input] = field(factory=dict)
    lanes: bool = False
    remaining: tuple[KeyRange, ...] | None = None
    ranges: Mapping[int, KeyRange] = field(factory=dict)


ROW_KIND, POSITION, ORIGIN, RAW, BYTES, ERROR = "_row_kind", "_position", "_origin", "_raw", "_bytes", "_error"
BATCH_COLUMNS = {
    ROW_KIND: "string",
    POSITION: "bigint",
    ORIGIN: "string",
    RAW: "string",
    BYTES: "binary",
    ERROR: "string",
}
"""Name and type of what `Batch.rows` has beside the source's own columns."""
_OFFSET = "@[0-9]+$"
ABSENT = "_absent"
"""string: which columns a record did not carry, each in backticks; null where it carried all (`RecordSpec`)."""


def lane() -> nw.Expr:
    """The log that a row stood in, where a batch has `lanes`: its origin but for the offset, ``topic/partition``."""
    return nw.col(ORIGIN).str.replace_all(_OFFSET, "")


@frozen
class Place:
    """One version of one table."""

    table: str
    version: str


@frozen
class Tally:
    """What a pipeline has read of its source so far.

    Args:
        rows: how many.
        dead_letters: those of them that could not be used.
    """

    rows: int = 0
    dead_letters: int = 0

    def plus(self, rows: int, dead_letters: int) -> Tally:
        """The tally after some more."""
        return Tally(self.rows + rows, self.dead_letters + dead_letters)


@frozen
class Publication:
    """The ledger's record that an epoch is complete.

    `tables` names, for every table of the pipeline, the version that holds the epoch. `watermark` (UTC) is the event
    time up to which input is taken to be complete; None while no row had an event time.
    """

    epoch: Epoch
    tables: Mapping[str, str]
    offsets: Offsets
    watermark: datetime | None
    published_at: datetime
    fingerprint: str
    """Of the service's settings: tables built under other settings are not continued."""
    watermarks: Mapping[str, datetime] = field(factory=dict)
    """Of a topic group, the watermark (UTC) of each topic that has brought an event time."""
    began_at: datetime | None = None
    """When its epoch began; None where that was not written down yet."""
    tally: Tally | None = None
    """What was read so far; None where that was not counted from the beginning."""


@frozen
class Mark:
    """What every data commit carries inside the backend's own commit.

    Args:
        epoch, offsets: the work that the commit holds.
        sequence: numbers the data commits of one table, 1, 2, 3 … A store refuses any but the next, so that two
            writers can never both succeed.
        writer: the run that made it.
        fingerprint: of the service's settings.
        anchor: the table whose commit ends this epoch and carries its publication.
        previous: where the publication that this epoch builds on is found; None for the first epoch.
        rolls_back: the commit takes unpublished work back instead of adding some.
        publication: on an epoch's last commit. Its `tables` leaves the anchor out: a version is not known before it
            is made.
        task: what else than reading its source the epoch does; a try that was cut off is taken back, as a restart
            cannot tell how to do the same again.
    """

    epoch: Epoch
    offsets: OffsetRange
    sequence: int
    writer: str
    fingerprint: str
    anchor: str
    previous: Place | None = None
    rolls_back: bool = False
    publication: Publication | None = None
    task: str | None = None

    def holds(self, epoch: Epoch, offsets: OffsetRange, fingerprint: str) -> bool:
        """Whether a commit with this mark holds that epoch of that range, computed under the same settings."""
        mine = (self.epoch, self.offsets, self.fingerprint, self.rolls_back, self.task)
        return mine == (epoch, offsets, fingerprint, False, None)

    def check_follows(self, newest: int, table: str) -> None:
        """Fence a table off: only the commit after its newest one may be made.

        Args:
            newest: the sequence of the table's newest marked commit; 0 if it has none.
            table: its name.

        Raises:
            EpochConflict: this mark is another's than the next.
        """
        if self.sequence != newest + 1:
            raise EpochConflict(
                f"table {table}: commit {self.sequence} was to be made, but the newest is {newest}: another writer"
                f" is at work on pipeline {self.epoch.pipeline!r}; nothing was changed. Let one run at a time write a"
                " pipeline"
            )

    def to_json(self) -> str:
        """The mark as one line of JSON, for a commit's metadata."""
        return json.dumps(asdict(self), default=datetime.isoformat, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, commit: str = "a commit") -> Mark:
        """Read `to_json` back.

        Args:
            text: what `to_json` gave.
            commit: the commit that carries it, in words.

        Raises:
            TableDamaged: it is no such text.
        """
        try:
            return cls._parsed(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise TableDamaged(
                f"{commit} carries a mark that cannot be read ({type(error).__name__}: {error}), so nothing is built"
                " upon it: put the commit's file back from a backup, or build the pipeline anew under another name"
            ) from error

    @classmethod
    def _parsed(cls, raw: dict[str, Any]) -> Mark:
        raw["epoch"] = Epoch(**raw["epoch"])
        raw["offsets"] = OffsetRange(**raw["offsets"])
        raw["previous"] = raw["previous"] and Place(**raw["previous"])
        if published := raw["publication"]:
            published["epoch"] = Epoch(**published["epoch"])
            published["published_at"] = datetime.fromisoformat(published["published_at"])
            for optional in ("watermark", "began_at"):
                told = published.get(optional)
                published[optional] = told and datetime.fromisoformat(told)
            published["tally"] = (counted := published.get("tally")) and Tally(**counted)
            by_topic = published.get("watermarks", {})  # none in what was published before there were topic groups
            published["watermarks"] = {topic: datetime.fromisoformat(each) for topic, each in by_topic.items()}
            raw["publication"] = Publication(**published)
        return cls(**raw)
