"""Keeps a sink up to date with the ledger: publishes the missing epochs, in order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import narwhals as nw
from attrs import define, field, frozen

from ...domain.epoch.epoch import Publication
from ...domain.errors import EpochConflict, SinkChanged, VersionExpired
from ...domain.ledger.ledger import Ledger
from ...domain.ports import FrameEngine, Receipt, StreamSink
from ...domain.service.base import Edits, ReadAt, Service
from ...domain.table.row_kind import INSERT, ROW_KIND
from ..read.keyed_views import changes_between

Missing: TypeAlias = Sequence[tuple[Publication | None, Publication]]
"""Publications that the sink is missing, oldest first, each with the one before it (None: the sink is empty)."""

_log = logging.getLogger(__name__)


@frozen
class _SinkState:
    """The last receipt in the sink, and whether this run has claimed the sink."""

    held: Receipt | None
    ours: bool


@define(eq=False)
class SinkPublisher:
    """Publishes one view of a pipeline to a sink, after each publication of the ledger.

    Args:
        service: of the pipeline.
        view: the name of the view.
        table: the table that stores the view's rows, if it is materialized.
        sink: receives the changes.
        engine: of the frames.
        writer: the run that publishes, as in the marks of its commits.
    """

    service: Service
    view: str
    table: str | None
    sink: StreamSink
    engine: FrameEngine
    writer: str
    sink_epoch: int | None = field(init=False, default=None)
    """The newest epoch that the sink is known to hold."""
    _state: _SinkState | None = field(init=False, default=None)
    _warned: bool = field(init=False, default=False)

    @property
    def in_step(self) -> bool:
        """Whether it knows which epoch the sink holds: not before the sink's first one, and not after a fault."""
        return self._state is not None and self._state.held is not None

    def reopen(self) -> None:
        """Ask the sink what it holds, and claim it again, before the next epoch: another publisher may have used it."""
        self._state = None

    def catch_up(self, ledger: Ledger, rows: int | None) -> None:
        """Publish the epochs of the ledger that the sink is missing, one at a time.

        An empty sink first gets all rows of the view. If the tables are behind the sink, because they were begun again
        or restored, a warning is logged, and nothing is published until they have reached it: only then is it known
        whether they have the same epochs. After a fault, call this again.

        The run that wrote the tables last owns the sink: if another one has claimed it, because it was paused just
        before that, this claims it once more.

        Args:
            ledger: of the pipeline, opened.
            rows: the expected number of rows in an epoch; None if unknown.

        Raises:
            SinkChanged: the sink holds an epoch that is not from these tables, or is missing epochs that have expired.
            EpochConflict: another run has claimed the sink, and this one has not written the tables since.
            SinkUnavailable: a transient fault.
        """
        try:
            self._publish_missing(ledger, rows)
        except EpochConflict as lost:
            if ledger.read_writer() != self.writer:
                raise
            _log.warning("%s: %s; this run has written the tables last, and claims it again", ledger.pipeline, lost)
            self._publish_missing(ledger, rows)

    def _publish_missing(self, ledger: Ledger, rows: int | None) -> None:
        state = self._state or _SinkState(self.sink.published(), ours=False)
        self._state = None  # after a fault, only the sink knows what it holds
        held, ours = state.held, state.ours
        missing = self.find_missing(ledger, held)
        if missing and not ours:
            held, ours = self.sink.claim(), True
            missing = self.find_missing(ledger, held)
        self.sink_epoch = held.epoch if held else None
        if held and is_ahead(held, ledger.latest) and not self._warned:
            self._warned = True
            _log.warning("%s: %s", ledger.pipeline, describe_ahead(held))
        for before, after in missing:
            if before and rows is not None:
                self.engine.expect(rows)
            self._publish(ledger, before, after)
            held = Receipt.of(after)
            self.sink_epoch = held.epoch
        self._state = _SinkState(held, ours)

    def find_missing(self, ledger: Ledger, held: Receipt | None) -> Missing:
        """The publications that the sink is missing, if this is its last receipt; see the function `find_missing`."""
        return find_missing(ledger, held, self.service, self.view, self.table)

    def _publish(self, ledger: Ledger, before: Publication | None, after: Publication) -> None:
        try:
            if before is None:
                rows = self.service.view(self.view, ReadAt(ledger.snapshot(after)))
                changes = rows.with_columns(nw.lit(INSERT).alias(ROW_KIND))
            else:
                at = ledger.snapshot(before), ledger.snapshot(after)
                changes = changes_between(self.service, self.view, self.table, *at)
            self.sink.publish(self.engine.persist(changes), after)
        except VersionExpired as error:
            if before is None:
                raise
            raise _expired(ledger.pipeline, before.epoch.number) from error
        finally:
            self.engine.release()


def is_ahead(held: Receipt, latest: Publication | None) -> bool:
    """Whether a sink holds an epoch that the tables have not reached: they were removed, restored or built again."""
    return latest is None or latest.epoch.number < held.epoch


def describe_ahead(held: Receipt) -> str:
    """The warning about a sink that `is_ahead`."""
    return (
        f"the topic that it publishes to holds epoch {held.epoch}, which these tables have not reached, so nothing is"
        " published until then. The run stops there if the offsets, the settings or the number of rows read differ. If"
        " the source has other rows than the topic was made from, publish to a new topic now"
    )


def find_missing(ledger: Ledger, held: Receipt | None, service: Edits, view: str, table: str | None) -> Missing:
    """The publications that a sink is missing.

    An empty sink gets nothing until the view's settings are those of the latest publication: rows by other settings
    could not be followed by the changes of the next epoch.

    Args:
        ledger: of the pipeline, opened.
        held: the last receipt in the sink.
        service: of the pipeline, with the present settings.
        view: the name of the view.
        table: the table that stores the view's rows, if it is materialized now.

    Raises:
        SinkChanged: it holds an epoch that is not from these tables, or is missing epochs that have expired; or the
            view was edited, and the difference for one of these epochs or for the next one cannot be computed.
    """
    latest = ledger.latest
    if latest is None or (held and is_ahead(held, latest)):
        return []
    if held is None:
        return [] if is_edited(service, view, latest) else [(None, latest)]
    missing = _read_since(ledger, held)
    for before, after in missing:
        if not (table in before.tables and table in after.tables):
            _check_unedited(service, view, before, after)
    if table not in latest.tables:
        _check_unedited(service, view, latest)
    return missing


def is_edited(service: Edits, view: str, publication: Publication) -> bool:
    """Whether the settings of a view have been edited since a publication."""
    return view in service.changed_views(publication.fingerprint)


def _check_unedited(service: Edits, view: str, *publications: Publication) -> None:
    """Check that a view has the same settings in publications as now: no table has its rows in all of them."""
    if any(is_edited(service, view, each) for each in publications):
        pipeline = publications[0].epoch.pipeline
        raise SinkChanged(
            f"pipeline {pipeline!r}: the settings of view {view!r} were edited, and the sink holds its rows by the"
            " former ones: publish to a new topic; or set them back, if no epoch was published with the edited ones. If"
            " the sink has an epoch of the view that was published with `materialize`, an edit after that sends the"
            " difference"
        )


def _read_since(ledger: Ledger, held: Receipt) -> list[tuple[Publication, Publication]]:
    found: list[Publication] = []
    try:
        for publication in ledger.publications():
            found.insert(0, publication)
            if publication.epoch.number == held.epoch:
                break
    except VersionExpired as error:
        raise _expired(ledger.pipeline, held.epoch) from error
    if not found or not held.fits(found[0]):
        raise SinkChanged(
            f"pipeline {ledger.pipeline!r}: the sink holds an epoch {held.epoch} that is not from these tables: they"
            " were rebuilt from other epochs or with other settings, or the topic belongs to another deployment;"
            " publish to a new topic"
        )
    return list(pairwise(found))


def _expired(pipeline: str, held: int) -> SinkChanged:
    return SinkChanged(
        f"pipeline {pipeline!r}: the sink holds epoch {held}, and the epochs after it have expired;"
        " publish to a new topic"
    )
