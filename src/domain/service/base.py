"""The interface of a service: its tables, a pure step, and its views."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import narwhals as nw
from attrs import Attribute, frozen

from ..epoch.batch import Batch
from ..epoch.epoch import Epoch, Publication
from ..epoch.key_range import KeyRange
from ..errors import ConfigError
from ..ledger.label import Label
from ..ledger.ledger import Snapshot
from ..ledger.upcoming import Upcoming, estimate
from ..table.change import Change
from ..table.fingerprint import changed_decoding, changed_settings, changed_views, view_settings
from ..table.net_changes import net_changes
from ..table.spec import TableSpec
from ..table.view_spec import ViewSpec

MOST_DAYS_AHEAD = 300
"""How many days after today a cut can be: a mistyped year is further."""


@frozen(eq=False)
class Step:
    """The result of an epoch's step: one change per table, and a few numbers.

    Args:
        changes: the changes by table name; a table that is missing stays as it is.
        rows: the number of rows in the batch, dead letters included.
        dead_letters: the number of rows that could not be used.
        newest: the highest event time of the batch (UTC); None if it has none.
        watermarks: in a topic group, the watermark (UTC) that this batch alone gives each topic with an event time;
            None for a topic without event times in the batch. The minimum over the topics is used instead of `newest`.
        watermark: the watermark after the epoch (UTC), if it does not follow from `newest` alone.
        repeats: the number of rows that were skipped as duplicates.
        warnings: messages for the operator; each text is logged once per run.
    """

    changes: Mapping[str, Change]
    rows: int
    dead_letters: int
    newest: datetime | None
    watermarks: Mapping[str, datetime | None] | None = None
    watermark: datetime | None = None
    repeats: int = 0
    warnings: tuple[str, ...] = ()


@frozen(eq=False)
class ReadAt:
    """The point at which a view is read.

    Args:
        snapshot: the publication to read from ("as known at").
        as_of: the view as of this event time (UTC), for a view that is `ViewSpec.takes_as_of`; else None.
        since: the earlier publication, for a view that is `ViewSpec.between`; else None.
    """

    snapshot: Snapshot
    as_of: datetime | None = None
    since: Snapshot | None = None


@frozen
class PendingRows:
    """Rows that a service keeps temporarily, while they wait for something.

    Args:
        rows: the number of rows.
        size: the size of their files, in bytes (`TableHistory.size`).
        chunks: the number of bulk-load chunks that they belong to; None if they are not of a bulk load.
        oldest: the earliest commit time of rows that wait for the rest of their transactions (UTC); else None.
    """

    rows: int
    size: int
    chunks: int | None = None
    oldest: datetime | None = None


def one_of(*allowed: str) -> Callable[[object, Attribute[Any], Any], None]:
    """A validator of attrs for a setting that is one of a few words."""

    def check(_settings: object, setting: Attribute[Any], value: Any) -> None:
        if value not in allowed:
            raise ConfigError(f"{setting.name} = {value!r} is not one of {', '.join(allowed)}")

    return check


@frozen
class GivenCut:
    """Where the cut of a user-supplied past is read.

    Args:
        table: the table that has it.
        read: returns it for a publication; None if the past has not been read yet, or was made of the days that passed.
    """

    table: TableSpec
    read: Callable[[Snapshot], date | None]


class ServiceSettings(Protocol):
    """The settings of a service."""

    kind: ClassVar[str]
    """The name of the service in configuration."""

    @property
    def pipeline(self) -> str:
        """The name of the pipeline."""


class Views(Protocol):
    """The views of a service, and reads of them."""

    tables: tuple[TableSpec, ...]
    """The tables in the order of their commits; the last one is the anchor table, which every epoch commits."""

    views: tuple[ViewSpec, ...]
    """The views, the default view first."""

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

    def view(self, name: str, at: ReadAt) -> nw.LazyFrame[Any]:
        """The rows of a view at one snapshot, or between two for a view that is `ViewSpec.between`.

        Args:
            name: one of `views`.
            at: the point at which it is read.

        Raises:
            ConfigError: there is no such view, or it cannot be read at such a point.
        """
        spec = self.known(name)
        if spec.between and (at.since is None or at.as_of is not None):
            raise ConfigError(f"view {name!r} compares two epochs: it needs an epoch to start from, and no event time")
        if at.since is not None and not spec.between:
            raise ConfigError(f"view {name!r} is read at one epoch, not between two; ask for its changes instead")
        if at.as_of is not None and not spec.takes_as_of:
            raise ConfigError(
                f"view {name!r} is read as it was published, not as of an event time; read it at an epoch or label"
            )
        return self.read(spec, at)

    @abstractmethod
    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        """The rows of one of `views`, whose flags permit this point; called by `view`."""

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of a keyed view that equal a row of `keys` in all of its columns; null equals nothing.

        If the service supports it, only the matching rows are computed.

        Args:
            name: one of `views`.
            at: the point at which it is read.
            keys: some or all of the view's key columns.
        """
        columns = keys.collect_schema().names()
        return self.view(name, at).join(keys, on=columns, how="semi")

    def held_back(self, name: str, at: ReadAt) -> str | None:  # noqa: ARG002 - overriding methods use it
        """Why a view that is `ViewSpec.timed` is not exact as of an event time, for display; None if it is exact.

        For example, a bulk load is in progress, or the time is before the start of the history.
        """
        return None


class ViewChanges(Views, Protocol):
    """The changes of views between two publications."""

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net changes of a keyed view between two snapshots, in its columns and ``_row_kind``; see `net_changes`.

        Raises:
            ConfigError: there is no such view, or its rows have no key.
        """
        spec = self.known(name)
        if not spec.key:
            keyed = ", ".join(each.name for each in self.views if each.key) or "none"
            raise ConfigError(f"view {name!r} has no key, so its changes cannot be listed; views with a key: {keyed}")
        return self.read_changes(spec, before, after)

    @abstractmethod
    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net changes of one of `views` that has a key; called by `view_changes`."""

    def changes_between(self, name: str, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        """Net changes of a keyed view from one point to another, in its columns and ``_row_kind``.

        They are the difference of the two results, and so include rows that were late for `before`.
        """
        if before.as_of is None and after.as_of is None:
            return self.view_changes(name, before.snapshot, after.snapshot)
        old, new = (self.view(name, each) for each in (before, after))
        return net_changes(old, new, self.known(name).key)


class Edits(Protocol):
    """What it means for stored rows that a pipeline's settings have been edited."""

    fingerprint: str
    """The fingerprint of all settings that stored rows depend on."""

    def changed(self, fingerprint: str) -> str | None:
        """The changed settings that prevent tables with another fingerprint from being continued, for display.

        None if they can be continued.
        """
        return changed_settings(fingerprint, self.fingerprint)

    def fingerprint_after(self, fingerprint: str) -> str:  # noqa: ARG002 - overriding methods use it
        """The fingerprint to record with an epoch that continues tables with another fingerprint.

        It has what a later edit must be compared with, of this and all earlier epochs.
        """
        return self.fingerprint

    def changed_decoding(self, fingerprint: str) -> str | None:
        """The changed settings by which sources are read, for display; None if none has changed.

        Tables are continued with them, unless `changed` says otherwise: rows that are stored stay as they were read.
        """
        return changed_decoding(fingerprint, self.fingerprint)

    def recomputes(self, fingerprint: str) -> bool:  # noqa: ARG002 - overriding methods use it
        """Whether the next epoch computes all rows again, because tables have another fingerprint; see `changed`."""
        return False

    def changed_views(self, fingerprint: str) -> frozenset[str]:
        """The views that have other rows than under the settings of a fingerprint, over the same tables.

        Whoever keeps rows of such a view, as of a publication with that fingerprint, must compute all of them again.
        """
        return changed_views(fingerprint, self.fingerprint)

    def view_settings(self, name: str) -> str | None:
        """The settings that a view's rows depend on although no stored row does, as text; None if it has none.

        Whoever keeps rows of the view must compute all of them again if these settings differ from those of then.
        """
        return view_settings(self.fingerprint, name)

    def views_read(self, publication: Publication) -> Mapping[str, str]:  # noqa: ARG002 - overriding methods use it
        """The `view_settings` under which a publication has read its inputs, by input, as far as it records them."""
        return {}


class Reports(Protocol):
    """What is told of publications."""

    def complete_to(self, publication: Publication) -> datetime | None:
        """The event time (UTC) up to which a version's input was complete; None if it has no watermark.

        The watermark never goes back, but this does when input that is behind is added: a topic, or an input.
        """
        if publication.watermark is None:
            return None
        return min([publication.watermark, *publication.watermarks.values()])

    def label(self, publication: Publication) -> Label | None:
        """The label of a version: the event time up to which its input was complete; None if it has no watermark."""
        reached = self.complete_to(publication)
        return Label(reached) if reached else None

    def epochs_read(self, publication: Publication) -> Mapping[str, int | None]:  # noqa: ARG002 - overriding methods use it
        """The epochs at which a publication has read `reads`, by input; None for an input that it did not read."""
        return {}

    def expect(self, publications: Sequence[Publication], now: datetime) -> Upcoming:
        """Tell when further publications come: by the schedule, or estimated from the last ones.

        Args:
            publications: newest first, at least one.
            now: the present time (UTC).
        """
        return estimate(publications, now)

    def exact_as_of(self, publication: Publication) -> datetime | None:  # noqa: ARG002 - overriding methods use it
        """The event time (UTC) that a publication's views show; None if they show all rows known at the publication."""
        return None

    def repeats(self, snapshot: Snapshot) -> int | None:  # noqa: ARG002 - overriding methods use it
        """The total number of rows skipped as duplicates; None if the service does not detect duplicates."""
        return None

    def bookkeeping(self, snapshot: Snapshot) -> Mapping[str, PendingRows]:  # noqa: ARG002 - overriding methods use it
        """The rows that are stored temporarily, by their kind."""
        return {}


class Service(ViewChanges, Edits, Reports, Protocol):
    """A bounded live part plus a versioned past. A service is pure: it does no I/O and reads no clock."""

    schedule: timedelta | None = None
    """The time from one epoch to the next; None if there is no schedule."""

    by_clock: bool = True
    """Whether `schedule` is a time of the clock; else it is event time."""

    reads: Mapping[str, str] = MappingProxyType({})
    """The pipelines that an epoch on a schedule reads, by input."""

    default_cut: Callable[[datetime | None, datetime], date] | None = None
    """Returns the cut for a watermark and a clock (UTC): the day of the watermark, or today in the pipeline's zone if
    there is none. None if the service has no past that is cut by day.
    """

    roll: Callable[[date, Snapshot], Step] | None = None
    """Moves the days before a cut into the past; None if the service has no past that is cut by day."""

    given_cut: GivenCut | None = None
    """The cut of a user-supplied past, which a rebuild makes again: the source has no row of that past. None without
    such a past.
    """

    settled: (
        Callable[[nw.LazyFrame[Any], Snapshot, tuple[KeyRange, ...], datetime | None], nw.LazyFrame[Any]] | None
    ) = None
    """Adds boolean ``settled`` to keys: whether their rows are exact; None if all keys are always exact.

    Its arguments are the keys, the publication at which rows are read, the key ranges of the chunks that are not read
    yet, and the event time (UTC) as of which rows are read.
    """

    def prepare(self, batch: Batch) -> Batch:
        """Compute ahead of `step` what does not depend on the tables, and keep it in `Batch.prepared`.

        A run does so while the epoch before is computed and committed. The step gives the same result without it.
        """
        return batch

    @abstractmethod
    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Compute the changes of a batch to the tables, given the latest publication before it."""

    def catch_up(self, snapshot: Snapshot) -> Step | None:  # noqa: ARG002 - overriding methods use it
        """Compute changes that have waited for this publication and need no new rows; None if there are none.

        Args:
            snapshot: the latest publication.
        """
        return None

    def renumber(self, epoch: Epoch, snapshot: Snapshot) -> Step:  # noqa: ARG002 - overriding methods use it
        """Compute the changes of an epoch that has the rows of the latest publication under another number.

        Args:
            epoch: the epoch.
            snapshot: the latest publication.
        """
        return Step({}, 0, 0, None)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:  # noqa: ARG002 - overriding methods use it
        """Compute the changes to the tables of a watermark that advances without rows; None if no view would change.

        Args:
            until: the event time up to which the idle source is assumed to be complete (UTC).
            snapshot: the latest publication.
        """
        return None
