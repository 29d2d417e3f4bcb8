"""What every service is: tables, a pure step, and views."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from .changelog.net import net_changes
from .errors import ConfigError
from .fingerprint import changed_settings
from .label import Label

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    import narwhals as nw

    from .change import Change
    from .epoch import Batch, Publication
    from .ledger import Snapshot
    from .schema import Schema
    from .table import TableSpec


@frozen(eq=False)
class Step:
    """What an epoch does: a change a table, by the table's name, and the little that was counted on the way.

    Args:
        changes: tables left out stay as they are.
        rows: rows the batch brought, dead letters among them.
        dead_letters: rows that could not be used.
        newest: highest event time of the batch (UTC); None if it had none.
        watermarks: of a topic group, for each topic with an event time how far this batch alone brought it (UTC), None
            if it brought no event time; the slowest of them then is what counts, not `newest`.
        watermark: the one after the epoch (UTC), where it does not follow `newest` alone.
        repeats: rows that were passed over, as they had been read before.
        warnings: what whoever runs it should know; each text is told once in a run.
    """

    changes: Mapping[str, Change]
    rows: int
    dead_letters: int
    newest: datetime | None
    watermarks: Mapping[str, datetime | None] | None = None
    watermark: datetime | None = None
    repeats: int = 0
    warnings: tuple[str, ...] = ()


@frozen
class ViewSpec:
    """A question a service answers.

    Args:
        name: as it is asked for, ``pipeline.name``.
        schema: its columns.
        key: columns that name a row, none if rows have no name.
        sort: columns that order it for a person.
        about: one line for ``headwater check``.
        between: it is asked between two publications, not at one.
        timed: it can be read as of an event time, exactly as it stood then.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    sort: tuple[str, ...] = field(converter=tuple[str, ...])
    about: str
    between: bool = False
    timed: bool = False


@frozen(eq=False)
class ReadAt:
    """Where a view is read.

    Args:
        snapshot: the publication.
        as_of: only what had happened up to this event time (UTC), of a view that is `ViewSpec.timed`; else None.
    """

    snapshot: Snapshot
    as_of: datetime | None = None


@frozen
class Kept:
    """Rows that a service keeps for the time being only, until what they wait for has come.

    Args:
        rows: how many.
        size: of the files that they lie in, in bytes (`TableStore.size`).
        chunks: of a bulk load, that they are; None where they are no chunks.
    """

    rows: int
    size: int
    chunks: int | None = None


class Service(Protocol):
    """A bounded live part plus a versioned past. Pure: it opens nothing, writes nothing, asks no clock."""

    tables: tuple[TableSpec, ...]
    """In the order of their commits; the last one is committed in every epoch and carries its publication."""

    views: tuple[ViewSpec, ...]
    """The default view first."""

    fingerprint: str
    """Of all settings that the stored rows depend on."""

    schedule: timedelta | None = None
    """The time from one epoch to the next, where a schedule says."""

    def known(self, name: str) -> ViewSpec:
        """One of `views` by its name.

        Raises:
            ConfigError: there is no such view.
        """
        for spec in self.views:
            if spec.name == name:
                return spec
        known, pipeline = ", ".join(spec.name for spec in self.views), self.tables[0].name.partition(".")[0]
        raise ConfigError(f"pipeline {pipeline!r} has no view {name!r}; there are: {known}")

    def label(self, publication: Publication) -> Label | None:
        """What a version can be asked for by: its watermark, where it has one."""
        return Label(publication.watermark) if publication.watermark else None

    def exact_as_of(self, publication: Publication) -> datetime | None:  # noqa: ARG002 - for those that show one
        """The one event time (UTC) that a publication's answers show; None where they show all that is known."""
        return None

    def changed(self, fingerprint: str) -> str | None:
        """What has changed since tables were built under another fingerprint that they cannot follow, in words.

        None where they can be continued.
        """
        return changed_settings(fingerprint, self.fingerprint)

    @abstractmethod
    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables, given the newest publication before it."""

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:  # noqa: ARG002 - for those that it matters to
        """What a watermark that comes without rows does to the tables; None if no answer would change.

        Args:
            until: up to where an idle source is taken to be complete (UTC).
            snapshot: the newest publication.
        """
        return None

    @abstractmethod
    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view from one snapshot, or, where it is asked between two, from both.

        Args:
            name: one of `views`.
            snapshot: the publication to answer from ("as known at").
            as_of: only what had happened up to this event time (UTC), where the service can tell.
            since: the earlier publication of a view that is asked between two.

        Raises:
            ConfigError: there is no such view, or it has no event time to go by.
        """

    @abstractmethod
    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net changes of a keyed view between two snapshots, in its columns and ``_row_kind``; see `net_changes`.

        Raises:
            ConfigError: there is no such view, or its rows have no key.
        """

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of a keyed view that equal a row of `keys` in all of its columns; null equals nothing.

        Where the service can, that costs what it returns.

        Args:
            name: one of `views`.
            at: where it is read.
            keys: some columns of the view's key, or all.
        """
        columns = keys.collect_schema().names()
        return self.view(name, at.snapshot, as_of=at.as_of).join(keys, on=columns, how="semi")

    def changes_between(self, name: str, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        """Net changes of a keyed view from one place to another, in its columns and ``_row_kind``.

        Rows that came late for `before` are among them: what is told is how the two answers differ.
        """
        if before.as_of is None and after.as_of is None:
            return self.view_changes(name, before.snapshot, after.snapshot)
        old, new = (self.view(name, each.snapshot, as_of=each.as_of) for each in (before, after))
        return net_changes(old, new, self.known(name).key)

    def held_back(self, name: str, at: ReadAt) -> str | None:  # noqa: ARG002 - for those that it matters to
        """Why a view that is `ViewSpec.timed` is not exact as of an event time, in words; None if it is.

        Its bulk is still being loaded, say, or the time lies before the history that is kept.
        """
        return None

    def repeats(self, snapshot: Snapshot) -> int | None:  # noqa: ARG002 - for those that pass over some
        """How many rows have been passed over, as they had been read before; None if none ever is."""
        return None

    def bookkeeping(self, snapshot: Snapshot) -> Mapping[str, Kept]:  # noqa: ARG002 - for those that have some
        """What is kept for the time being only, until what it waits for has come, by what it is."""
        return {}
