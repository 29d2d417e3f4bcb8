"""Epochs, their offsets, their publications, and the mark in each of their commits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from attrs import asdict, field, frozen

from ..errors import EpochConflict, TableDamaged

Offsets: TypeAlias = "Mapping[str, Any]"
"""A position in a source, in JSON values. Only the source knows their meaning."""


@frozen(order=True)
class Epoch:
    """One micro-batch of one pipeline; numbered from 0."""

    pipeline: str
    number: int


@frozen
class OffsetRange:
    """The input of an epoch: everything after `after` (None: from the beginning), up to and including `until`."""

    after: Offsets | None
    until: Offsets


@frozen
class Place:
    """One version of one table."""

    table: str
    version: str


@frozen
class Shortcut:
    """An earlier publication, named in the mark of a later one.

    Args:
        number: the number of its epoch.
        place: the commit that carries it.
        earliest: the earliest time of the publications in between (UTC); clocks may be set back.
    """

    number: int
    place: Place
    earliest: datetime


@frozen
class Tally:
    """The number of rows that a pipeline has read so far.

    Args:
        rows: all rows, dead letters included.
        dead_letters: the rows that could not be used.
    """

    rows: int = 0
    dead_letters: int = 0

    def plus(self, rows: int, dead_letters: int) -> Tally:
        """This tally plus further rows."""
        return Tally(self.rows + rows, self.dead_letters + dead_letters)


@frozen
class Publication:
    """The ledger's record that an epoch is complete.

    `tables` has the version of each table of the pipeline that contains the epoch. `watermark` (UTC) is the event time
    up to which the input is assumed to be complete; None until a row has an event time.
    """

    epoch: Epoch
    tables: Mapping[str, str]
    offsets: Offsets
    watermark: datetime | None
    published_at: datetime
    fingerprint: str
    """The fingerprint of the service's settings; tables built with other settings are not continued."""
    watermarks: Mapping[str, datetime] = field(factory=dict)
    """In a topic group, the watermark (UTC) of each topic that has had an event time."""
    began_at: datetime | None = None
    """The start of its epoch (UTC); None in publications of old versions, which did not record it."""
    tally: Tally | None = None
    """The number of rows read so far; None if they were not counted from the first epoch on."""
    beginning: Offsets | None = None
    """The offsets after which the first epoch began to read, and a later one each part of the source (a topic) that was
    new, so that a rebuild can tell whether the source still has what was read. None if the first epoch read from the
    beginning of its source, or if they were not recorded."""
    settings: str | None = None
    """The digest of all settings that the rows depend on, of this epoch and those before it; see `add_settings`. None
    if they were not recorded from the first epoch on."""
    sink_epoch: int | None = None
    """The newest epoch that the sink was known to hold when this one was published; None if there is no sink."""


def add_beginnings(beginning: Offsets | None, read: Offsets, after: Offsets | None) -> Offsets | None:
    """The beginning of several epochs, after one more: with the start of each part that was not read so far.

    >>> add_beginnings({"a": {"0": 4}}, {"a": {"0": 9}}, {"a": {"0": 9, "1": 0}, "b": {"0": 6}})
    {'a': {'0': 4, '1': 0}, 'b': {'0': 6}}

    Args:
        beginning: that of the epochs so far.
        read: the offsets of the latest of them.
        after: the offsets after which the next one reads.
    """
    found = dict(beginning or {})
    for part, start in (after or {}).items():
        if part not in read:
            found[part] = start
        elif isinstance(start, Mapping) and isinstance(read[part], Mapping):
            within = add_beginnings(found.get(part), read[part], start)
            found |= {} if within is None else {part: within}
    return found or None


def add_settings(former: str | None, present: str | None) -> str | None:
    """The digest of the settings of several epochs, after one more; the same as before if its settings are.

    Args:
        former: the digest for the epochs before, `present` of the first one to begin with; None if unknown.
        present: the digest of the settings of the next epoch; None if unknown.

    >>> add_settings("a", "a")
    'a'
    >>> add_settings(add_settings("a", "b"), "b") == add_settings("a", "b") != "b"
    True
    """
    if former is None or present is None:
        return None
    if former.split("/")[-1] == present:
        return former
    return f"{hashlib.sha256(former.encode()).hexdigest()[:16]}/{present}"


@frozen
class Mark:
    """The metadata of a data commit, stored inside the backend's own commit.

    Args:
        epoch, offsets: the epoch, and the input that the commit contains.
        sequence: the number of the data commit in its table, 1, 2, 3 … A store accepts only the next number, so that
            two writers can never both succeed.
        writer: the run that made it.
        fingerprint: the fingerprint of the service's settings.
        anchor: the anchor table: its commit ends the epoch and carries the publication.
        previous: the commit that carries the previous publication; None for the first epoch.
        rolls_back: the commit rolls unpublished work back.
        publication: the publication, in the epoch's last commit only. Its `tables` lacks the anchor table, because the
            anchor's version is not known before the commit.
        task: the name of the epoch's task, if it does something other than reading its source. An unfinished try is
            rolled back, because a restart does not know how to repeat it.
        engine: the engine that made it, if the deployment chooses one for each epoch. Commits of two engines are never
            mixed in one epoch.
        settings: the digest of all settings that the epoch's rows depend on; None in marks of old versions, which did
            not record it. Unlike `fingerprint`, it may change from one epoch to the next, but not within an epoch.
        rows: the number of rows that the epoch has read, dead letters included; None if it is not recorded, as in marks
            of old versions.
        shortcut: a publication before `previous`; None if it has none, as in marks of old versions.
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
    engine: str | None = None
    settings: str | None = None
    rows: int | None = None
    shortcut: Shortcut | None = None

    def holds(
        self,
        epoch: Epoch,
        offsets: OffsetRange,
        fingerprint: str,
        engine: str | None = None,
        settings: str | None = None,
    ) -> bool:
        """Whether a commit with this mark contains the epoch over this range, with the same settings and engine."""
        mine = (self.epoch, self.offsets, self.fingerprint, self.rolls_back, self.task, self.engine)
        return mine == (epoch, offsets, fingerprint, False, None, engine) and self.fits(settings)

    def fits(self, settings: str | None) -> bool:
        """Whether the commit was made with the settings of this digest, as far as the mark records it."""
        return self.settings in {None, settings}

    def follows(self, newest: int) -> bool:
        """Whether this mark is the next one of a table (fencing).

        Args:
            newest: the sequence of the table's newest marked commit; 0 if it has none.
        """
        return self.sequence == newest + 1

    def check_follows(self, newest: int, table: str) -> None:
        """Check that this mark is the next one of a table, which has this name; see `follows`.

        Raises:
            EpochConflict: `sequence` is not `newest` + 1.
        """
        if not self.follows(newest):
            made = f"commit {self.sequence} has been made already"
            fault = made if self.sequence <= newest else f"its newest commit is {newest} again"
            raise EpochConflict(
                f"table {table}: {fault}: another writer is at work on pipeline {self.epoch.pipeline!r}; nothing was"
                " changed. Let one run at a time write a pipeline"
            )

    def to_json(self) -> str:
        """The mark as one line of JSON, for a commit's metadata."""
        found = asdict(self)
        for later in ("engine", "settings", "rows", "shortcut"):  # as versions wrote it that knew none of them
            if found[later] is None:
                del found[later]
        for later in ("beginning", "settings", "sink_epoch"):  # likewise
            if (published := found["publication"]) and published[later] is None:
                del published[later]
        return json.dumps(found, default=datetime.isoformat, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, commit: str = "a commit") -> Mark:
        """Parse the output of `to_json`.

        Args:
            text: the JSON text.
            commit: the commit that carries it, for messages.

        Raises:
            TableDamaged: the text is not a mark.
        """
        try:
            return cls._parsed(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise TableDamaged(
                f"{commit} carries a mark that cannot be read ({type(error).__name__}: {error}), so the pipeline cannot"
                " continue from it: restore the commit's file from a backup, or rebuild the pipeline under another name"
            ) from error

    @classmethod
    def _parsed(cls, raw: dict[str, Any]) -> Mark:
        raw["epoch"] = Epoch(**raw["epoch"])
        raw["offsets"] = OffsetRange(**raw["offsets"])
        raw["previous"] = raw["previous"] and Place(**raw["previous"])
        raw["shortcut"] = (shortcut := raw.get("shortcut")) and _parse_shortcut(shortcut)
        if published := raw["publication"]:
            published["epoch"] = Epoch(**published["epoch"])
            published["published_at"] = datetime.fromisoformat(published["published_at"])
            for optional in ("watermark", "began_at"):
                text = published.get(optional)
                published[optional] = text and datetime.fromisoformat(text)
            published["tally"] = (tally := published.get("tally")) and Tally(**tally)
            by_topic = published.get("watermarks", {})  # missing in publications from before topic groups existed
            published["watermarks"] = {topic: datetime.fromisoformat(each) for topic, each in by_topic.items()}
            raw["publication"] = Publication(**published)
        return cls(**raw)


def _parse_shortcut(raw: Mapping[str, Any]) -> Shortcut:
    return Shortcut(raw["number"], Place(**raw["place"]), datetime.fromisoformat(raw["earliest"]))
