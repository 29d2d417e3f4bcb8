"""Keeps a sink level with the ledger: publishes the epochs that it lacks, in order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from ..domain.changelog.row_kind import INSERT
from ..domain.epoch import ROW_KIND
from ..domain.errors import SinkChanged, VersionExpired
from ..domain.ports import Receipt
from .keyed_views import changes_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..domain.epoch import Publication
    from ..domain.ledger import Ledger, Snapshot
    from ..domain.ports import FrameEngine, StreamSink
    from ..domain.service import Service

    Lacking = Sequence[tuple[Publication | None, Publication]]
    """Publications that the sink lacks, oldest first, each with the one before it (None: the sink holds nothing)."""


@frozen
class _Standing:
    """What the sink holds, and whether this run is the one who publishes to it."""

    held: Receipt | None
    ours: bool


@define(eq=False)
class Outlet:
    """Publishes one view of a pipeline to a sink, after each publication of the ledger.

    Args:
        service: whose view it is.
        view: its name.
        table: the table that holds the view's rows, where it is materialized.
        sink: where it goes.
        engine: of the frames.
    """

    service: Service
    view: str
    table: str | None
    sink: StreamSink
    engine: FrameEngine
    _standing: _Standing | None = field(init=False, default=None)

    def catch_up(self, ledger: Ledger, rows: int | None) -> None:
        """Publish what the ledger has and the sink lacks, an epoch at a time.

        A sink that holds nothing yet begins with all rows there are. Where the tables are behind the sink, as they are
        when built anew, nothing is published until they have reached it. After a fault, call it again.

        Args:
            ledger: of the pipeline, opened.
            rows: how many an epoch is about, where that can be told.

        Raises:
            SinkChanged: the sink holds what is not from these tables, or lacks what they no longer hold.
            EpochConflict: another run has claimed the sink.
            SinkUnavailable: a passing fault.
        """
        standing = self._standing or _Standing(self.sink.published(), ours=False)
        self._standing = None  # until all is there, only the sink knows
        held, ours = standing.held, standing.ours
        lacking = _lacking(ledger, held)
        if lacking and not ours:
            held, ours = self.sink.claim(), True
            lacking = _lacking(ledger, held)
        for before, after in lacking:
            if before and rows is not None:
                self.engine.expect(rows)
            self._publish(ledger, before, after)
            held = Receipt.of(after)
        self._standing = _Standing(held, ours)

    def _publish(self, ledger: Ledger, before: Publication | None, after: Publication) -> None:
        try:
            if before is None:
                changes = self._everything(ledger.snapshot(after))
            else:
                at = ledger.snapshot(before), ledger.snapshot(after)
                changes = changes_between(self.service, self.view, self.table, *at)
            self.sink.publish(self.engine.persist(changes), after)
        finally:
            self.engine.release()

    def _everything(self, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        return self.service.view(self.view, snapshot).with_columns(nw.lit(INSERT).alias(ROW_KIND))


def _lacking(ledger: Ledger, held: Receipt | None) -> Lacking:
    latest = ledger.latest
    if latest is None or (held and latest.epoch.number < held.epoch):  # tables that are built anew are not there yet
        return []
    return _since(ledger, held) if held else [(None, latest)]


def _since(ledger: Ledger, held: Receipt) -> Lacking:
    found: list[Publication] = []
    try:
        for publication in ledger.publications():
            found.insert(0, publication)
            if publication.epoch.number == held.epoch:
                break
    except VersionExpired as error:
        raise SinkChanged(
            f"pipeline {ledger.pipeline!r}: the sink holds epoch {held.epoch}, and the epochs after it have been"
            " cleaned away; publish to a new topic"
        ) from error
    if not found or Receipt.of(found[0]) != held:
        raise SinkChanged(
            f"pipeline {ledger.pipeline!r}: the sink holds an epoch {held.epoch} that is not of these tables: they were"
            " built anew from other epochs or under other settings, or the topic is another deployment's; publish to a"
            " new topic"
        )
    return list(pairwise(found))
