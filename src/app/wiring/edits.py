"""What an edit of the configuration changes, compared with the tables that are stored; ``headwater plan`` shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from enum import Enum
from functools import cached_property

from attrs import define, field, frozen

from ...domain.epoch.epoch import Offsets, Publication
from ...domain.errors import ConfigError, HeadwaterError, NotSupported, SchemaConflict, SinkUnavailable, Transient
from ...domain.ledger.generation import generation_of, read_generations
from ...domain.ledger.ledger import Ledger
from ...domain.ledger.move_record import MOVE_FOLDER
from ...domain.ports import Clock, KeptStore
from ...domain.service.base import Service
from ...domain.service.input import ViewOf
from ...domain.source.bulk import BULK, CHANGELOG
from ..config import Deployment, PipelineSettings
from ..read.keyed_views import feed_of
from ..registry.backends import Part, load_backend
from ..run.loading import check_loaded
from ..run.materialized import materialized_tables
from ..run.sink_publisher import describe_ahead, find_missing, is_ahead, is_edited
from ..services.kind import kind_of
from .blueprints import in_order
from .engine_parts import EngineParts
from .sinks import read_receipt
from .sources import PolarsSources
from .table_formats import check_format, folders_at, tables_in


class Verdict(Enum):
    """What the next run does with a pipeline or a source of the configuration."""

    NEW = "new"
    """It begins: nothing is published yet."""
    NOTHING = "nothing"
    """It continues as before."""
    WIDENED = "widened"
    """It continues with more columns, tables or topics."""
    RECOMPUTED = "recomputed"
    """It continues; rows are computed again from its inputs or its own tables."""
    REMOVED = "removed"
    """Something is no longer declared; its tables or rows are left behind."""
    REBUILD = "rebuild"
    """It stops: the stored tables cannot be continued with these settings; `headwater rebuild` makes new ones."""
    REFUSED = "refused"
    """It stops: something else must be put right first."""


@frozen
class Edit:
    """What the next run does with a pipeline or a source.

    Args:
        kind: ``pipeline`` or ``source``.
        name: its name.
        verdict: in one word.
        details: what changes, or the message with which a run stops; it names the remedy.
    """

    kind: str
    name: str
    verdict: Verdict
    details: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether a run stops with an error."""
        return self.verdict in {Verdict.REBUILD, Verdict.REFUSED}


def plan_edits(deployment: Deployment, services: Mapping[str, Service], clock: Clock) -> list[Edit] | None:
    """What the next run changes: pipelines, sources, and pipelines that are no longer declared.

    Only metadata is read, and nothing is written. On Delta in a folder of this machine no JVM is started.

    Args:
        deployment: the edited one.
        services: of its pipelines, by name; see `blueprints`.
        clock: the present time.

    Returns:
        The edits, or None if the backend keeps nothing beyond a run.
    """
    backend = load_backend(deployment.backend.name)
    if not backend.offers(Part.DURABILITY):
        return None
    with ExitStack() as exits:
        parts = EngineParts(deployment, backend.for_metadata(deployment.backend), exits)
        planner = _Planner(deployment, services, parts.store, clock)
        return [*planner.pipelines(), *planner.sources(), *_removed(deployment, parts.store)]


@define(eq=False)
class _Planner:
    """Compares a deployment with its tables."""

    deployment: Deployment
    services: Mapping[str, Service]
    store: KeptStore
    clock: Clock
    _latest: dict[str, Publication] = field(init=False, factory=dict)
    _offsets: dict[str, Offsets] = field(init=False, factory=dict)
    _source_errors: dict[str, str] = field(init=False, factory=dict)

    def pipelines(self) -> list[Edit]:
        found = {name: self._pipeline(self.deployment.pipelines[name]) for name in in_order(self.deployment)}
        return [found[name] for name in self.deployment.pipelines]

    def _pipeline(self, pipeline: PipelineSettings) -> Edit:
        """Open the tables as a run does, and look at what differs."""
        name, service = pipeline.name, self.services[pipeline.name]
        tables = (*service.tables, *materialized_tables(service, name, pipeline.materialize))
        ledger = Ledger(self.store, name, [spec.name for spec in tables], self.clock, service.changed)
        try:
            ledger.open()
            ledger.check_there()
            versions = ledger.snapshot().versions
            added = {spec.name: self.store.ensure(spec, versions) for spec in tables}
            self.store.check_current(name, writes=True)
        except (ConfigError, SchemaConflict) as error:
            return Edit("pipeline", name, Verdict.REBUILD, (str(error),))
        except Transient:
            raise
        except HeadwaterError as error:
            return Edit("pipeline", name, Verdict.REFUSED, (str(error),))
        finally:
            if ledger.latest:  # a pipeline that stops has read its sources, too
                self._offsets[name] = ledger.latest.offsets
        try:
            check_format(self.deployment, name)
            check_loaded(ledger, service)
            if ledger.latest is None:
                return Edit("pipeline", name, Verdict.NEW, tuple(self._published(pipeline, ledger)))
            self._latest[name] = ledger.latest
            self._check_sources(pipeline, ledger.latest.offsets)
            self._check_bulk(pipeline, ledger.latest.offsets)
            published = list(self._published(pipeline, ledger))
        except HeadwaterError as error:
            return Edit("pipeline", name, Verdict.REFUSED, (str(error),))
        recomputed = list(self._recomputed(pipeline, ledger.latest))
        widened = [f"table {table}: new columns {columns.ddl}" for table, columns in added.items() if columns.columns]
        shown = list(self._edited_views(pipeline, ledger.latest, stored=False))
        left = [f"table {table} is no longer written, and left behind" for table in versions if table not in added]
        details = (*recomputed, *shown, *widened, *left, *published, *self._read_otherwise(name, ledger.latest))
        # A view that is not stored costs nothing: new columns say more.
        return Edit("pipeline", name, _first(recomputed or ([] if widened else shown), widened, left), details)

    def _published(self, pipeline: PipelineSettings, ledger: Ledger) -> Iterator[str]:
        """What the next run does with the topic that a pipeline publishes to, as `SinkPublisher` does."""
        if (output := pipeline.publish) is None:
            return
        service, latest = self.services[pipeline.name], ledger.latest
        feed = feed_of(pipeline.name, output, service)
        view = feed.view.name
        try:
            held = read_receipt(output, feed)
        except SinkUnavailable as error:
            yield f"it is not known whether topic {output.topic} can be continued: {error}"
            return
        find_missing(ledger, held, service, view, f"{pipeline.name}.{view}" if view in pipeline.materialize else None)
        if held is None:
            waits = " with the next epoch" if latest and is_edited(service, view, latest) else ""
            yield f"topic {output.topic} has none of its rows, and first gets all rows of view {view}{waits}"
        elif is_ahead(held, latest):
            yield describe_ahead(held)

    def _read_otherwise(self, name: str, latest: Publication) -> Iterator[str]:
        if changed := self.services[name].changed_decoding(latest.fingerprint):
            yield (
                f"its source is read with {changed}: rows that are stored stay as they were read, and what was skipped"
                " is not read again"
            )

    def _recomputed(self, pipeline: PipelineSettings, latest: Publication) -> Iterator[str]:
        name, service = pipeline.name, self.services[pipeline.name]
        if service.recomputes(latest.fingerprint):
            yield "its settings were edited: all rows are computed again"
        yield from self._edited_views(pipeline, latest, stored=True)
        for view in pipeline.materialize:
            if f"{name}.{view}" not in latest.tables:
                yield f"view {view} will be stored: the next epoch writes all of its rows"
        settings = service.views_read(latest)
        for key, each in kind_of(pipeline).reads(pipeline.service).items():
            if self._edited(each, settings.get(key)):
                yield f"input {each} was edited: all rows that are computed from it are computed again"

    def _edited_views(self, pipeline: PipelineSettings, latest: Publication, *, stored: bool) -> Iterator[str]:
        """The views that have other rows by the edited settings: those that are stored, or the others."""
        where = ", also where they are stored" if stored else ""
        for view in sorted(self.services[pipeline.name].changed_views(latest.fingerprint)):
            if (view in pipeline.materialize) == stored:
                yield f"view {view} was edited: all of its rows change{where}"

    def _edited(self, each: ViewOf, settings: str | None) -> bool:
        """Whether a view has been edited since it was read under these settings; None: they were not recorded."""
        service, latest = self.services[each.pipeline], self._latest.get(each.pipeline)
        view = each.of(service).name
        if settings is not None:
            return service.view_settings(view) not in {settings, None}
        return latest is not None and view in service.changed_views(latest.fingerprint)

    # ---- sources ---------------------------------------------------------------------------------------------------

    def sources(self) -> Iterator[Edit]:
        for name, settings in self.deployment.sources.items():
            if name in self._source_errors:
                yield Edit("source", name, Verdict.REFUSED, (self._source_errors[name],))
                continue
            read = list(self._offsets_read(name))
            topics, before = settings.input.topics, {topic for offsets in read for topic in offsets}
            more = [f"topic {each} is read from its beginning" for each in topics if read and each not in before]
            left = [f"topic {each} is no longer read; its rows stay" for each in sorted(before.difference(topics))]
            if not topics:  # the offsets are not by topic
                more, left = [], []
            yield Edit("source", name, _first([], more, left) if read else Verdict.NEW, (*more, *left))

    def _offsets_read(self, source: str) -> Iterator[Offsets]:
        """The offsets up to which pipelines have read a source."""
        for name, until in self._offsets.items():
            by_source = _offsets_by_source(self.deployment.pipelines[name], until)
            yield from (offsets for each, offsets in by_source if each == source)

    def _check_sources(self, pipeline: PipelineSettings, offsets: Offsets) -> None:
        """Check that each source continues after these offsets; see `StreamSource.check_after`."""
        for name, after in _offsets_by_source(pipeline, offsets):
            try:
                source = self._polars_sources.open(self.deployment.sources[name])
            except NotSupported:  # only another engine reads it, and it is not started for this
                continue
            try:
                source.check_after(after)
            except HeadwaterError as error:
                self._source_errors[name] = str(error)
                raise

    def _check_bulk(self, pipeline: PipelineSettings, offsets: Offsets) -> None:
        """Check that the bulk of a bulk merge continues after these offsets; see `BulkSource.check_after`."""
        try:
            bulk = kind_of(pipeline).open_bulk(pipeline.service, pipeline, self._polars_sources)
        except NotSupported:  # only another engine reads it, and it is not started for this
            return
        if bulk:
            bulk.check_after(offsets.get(BULK))

    @cached_property
    def _polars_sources(self) -> PolarsSources:
        return PolarsSources(self.deployment.backend.name)


def _offsets_by_source(pipeline: PipelineSettings, offsets: Offsets) -> Iterator[tuple[str, Offsets]]:
    if isinstance(pipeline.source, Mapping):
        for topic, source in pipeline.source.items():
            if topic in offsets:
                yield source, offsets[topic]
    elif pipeline.source and pipeline.bulk is None:
        yield pipeline.source, offsets
    elif pipeline.source and CHANGELOG in offsets:
        yield pipeline.source, offsets[CHANGELOG]


def _first(recomputed: Iterable[str], widened: Iterable[str], left: Iterable[str]) -> Verdict:
    """The verdict on something that continues."""
    found = ((Verdict.RECOMPUTED, recomputed), (Verdict.WIDENED, widened), (Verdict.REMOVED, left))
    return next((verdict for verdict, details in found if details), Verdict.NOTHING)


def _removed(deployment: Deployment, store: KeptStore) -> Iterator[Edit]:
    """The folders at the path of a deployment whose tables no run uses any more; none if it is not a folder.

    They are of pipelines that are not declared, and of generations that are not current.
    """
    for folder in folders_at(deployment):
        pipeline, generation = generation_of(folder.name)
        if pipeline in deployment.pipelines:
            there = read_generations(store, pipeline)
            used = {None, there.current, *([there.newest] if there.building else [])}
        else:
            used = {None} if folder.name == MOVE_FOLDER else set()
        if generation not in used and folder.is_dir():
            tables = sorted({table for table, _ in tables_in(folder)})
            if tables:
                names = ", ".join(f"{folder.name}.{table}" for table in tables)
                yield Edit("pipeline", folder.name, Verdict.REMOVED, (f"left behind: {names}",))
