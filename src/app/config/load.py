"""Reads a deployment from its TOML file and checks all of it before anything starts."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from ...adapters.spark.settings import check_settings
from ...domain.ledger.retention import Retention
from ...domain.service.bulk_merge import BulkMergeSettings
from ...domain.service.cumulate import CumulateSettings
from ...domain.service.feed import FEED_FORMATS
from ...domain.service.ranking import METHODS, RankingSettings
from ...domain.service.segments import Segments
from ...domain.source.changelog.settings import BEFORE, CHANGE_FORMATS, TIME_UNITS, TRANSACTIONS, ChangeSpec
from ...domain.source.dead_letter import USUAL_LIMIT
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import TIMES, Column
from ..deployment.deployment import (
    BackendSettings,
    BulkInput,
    Deployment,
    KafkaOutput,
    PipelineSettings,
    RunSettings,
    SourceSettings,
)
from ..document.document import parse
from ..document.environment import overlay
from ..document.paths import resolve
from ..document.section import Section
from ..document.value_types import (
    DURATION,
    FLAG,
    LIMIT,
    NUMBER_OR_TEXT,
    PATH,
    SCHEMA,
    SETTINGS,
    SOME_TEXTS,
    TABLE,
    TEXT,
    TEXTS,
    ZONE,
    Key,
    choice,
    flatten,
    whole,
)
from ..registry.backends import available, load_backend
from ..registry.sources import load_source_kind, source_kinds
from .services.bulk_merge import BULK_MERGE, bulk_merge, bulk_merge_shape
from .services.cumulate import CUMULATE, cumulate
from .services.materialized_view import MATERIALIZED_VIEW, materialized_view, materialized_view_shape
from .services.measures import measures_shape
from .services.retraction import RETRACTION, retraction, retraction_shape
from .services.snapshots import SNAPSHOTS, snapshots, snapshots_shape
from .services.wide_table import WIDE_TABLE, wide_table, wide_table_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...domain.service.retraction import RetractionSettings
    from ..deployment.deployment import ServiceSettings
    from ..document.document import Document
    from ..document.lines import KeyPath
    from ..registry.sources import SourceKind

_NO_WAIT, _A_SECOND, _A_MINUTE = map(DURATION.read, ("0s", "1s", "1m"))
_FROM_ZERO, _FROM_ONE = whole(0), whole(1)
RUN = {
    "poll": Key(DURATION, _A_SECOND),
    "retries": Key(_FROM_ZERO, 5),
    "retry_wait": Key(DURATION, _A_SECOND),
    "retry_max_wait": Key(DURATION, _A_MINUTE),
    "dead_letter_limit": Key(LIMIT, USUAL_LIMIT),
    "dead_letter_stop": Key(_FROM_ZERO, 1000),
}
BACKEND = {
    "name": Key(TEXT, required=True),
    "path": Key(PATH),
    "compact_every": Key(_FROM_ZERO, 16),
    "retain": Key(TABLE, {}),
    "expire_every": Key(_FROM_ZERO, 0),
    "file_mb": Key(_FROM_ONE, 128),
    "spark": Key(SETTINGS, {}),
}
RETAIN = {"versions": Key(_FROM_ONE), "duration": Key(DURATION)}
ANY_SOURCE = {
    "kind": Key(TEXT, required=True),
    "schema": Key(SCHEMA, required=True),
    "event_time": Key(TEXT),
    "watermark_delay": Key(DURATION, _NO_WAIT),
    "idle_after": Key(DURATION),
    "row_kind": Key(TEXT),
    "time_zone": Key(ZONE, "UTC"),
}
CHANGES = {
    "tables": Key(TEXTS, ()),
    "key": Key(TEXTS, ()),
    "metadata": Key(SETTINGS, {}),
    "before": Key(choice(*BEFORE), "required"),
    "time_unit": Key(choice(*TIME_UNITS)),
    "transactions": Key(choice(*TRANSACTIONS)),
}
ANY_PIPELINE = {
    "service": Key(
        choice("ranking", "retraction", "cumulate", "wide_table", "snapshots", "bulk_merge", "materialized_view"),
        required=True,
    ),
    "retain": Key(TABLE),
    "expire_every": Key(_FROM_ZERO),
    "epoch_takes": Key(DURATION),
}
ANY_STREAM = ANY_PIPELINE | {
    "materialize": Key(TEXTS, ()),
    "publish": Key(TABLE),
}
OF_ONE_SOURCE = ANY_STREAM | {"source": Key(TEXT, required=True)}
PUBLISH = {
    "view": Key(TEXT),
    "servers": Key(TEXT, required=True),
    "topic": Key(TEXT, required=True),
    "format": Key(choice(*FEED_FORMATS), "json"),
    "row_kind": Key(TEXT, "row_kind"),
    "tombstones": Key(FLAG, default=True),
    "rename": Key(SETTINGS, {}),
    "options": Key(SETTINGS, {}),
}
RANKING = {
    "group": Key(SOME_TEXTS, required=True),
    "id": Key(SOME_TEXTS, required=True),
    "order_by": Key(TEXT, required=True),
    "method": Key(choice(*METHODS), "dense_rank"),
    "tie_break": Key(TEXTS, ()),
    "segment": Key(NUMBER_OR_TEXT, "1d"),
    "offset": Key(NUMBER_OR_TEXT, "0s"),
    "time_zone": Key(ZONE, "UTC"),
    "nulls": Key(choice("first", "last"), "last"),
    "top": Key(_FROM_ONE, 10),
    "repeats": Key(choice("anywhere", "same-segment"), "anywhere"),
}
SERVICES: Mapping[str, Mapping[str, Key]] = {
    "ranking": OF_ONE_SOURCE | RANKING,
    "retraction": OF_ONE_SOURCE | RETRACTION,
    "cumulate": OF_ONE_SOURCE | CUMULATE,
    "wide_table": ANY_STREAM | WIDE_TABLE,
    "snapshots": ANY_PIPELINE | SNAPSHOTS,
    "bulk_merge": ANY_STREAM | BULK_MERGE,
    "materialized_view": ANY_STREAM | MATERIALIZED_VIEW,
}
_SOME_RETENTION = 'retain = { versions = 5 }, { duration = "2d" } or both'
_OF_RECORDS = ("schema", "format", "row_kind", "time_zone", "delimiter")
_TABLES = ("run", "backend", "sources", "pipelines")


def load(file: str | Path, environ: Mapping[str, str] | None = None) -> Deployment:
    """Read and check a deployment file.

    Args:
        file: the TOML file; relative paths in it start from its folder.
        environ: environment variables that override it; those of the process if not set.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    file = Path(file)
    tree, lines = parse(file)
    document = overlay(file, tree, lines, os.environ if environ is None else environ, _shape(tree))
    return _Loader(document).deployment()


@frozen
class _Loader:
    document: Document

    def deployment(self) -> Deployment:
        for name in self.document.tree:
            if name not in _TABLES:
                raise self.document.unknown((name,), "table", _TABLES)
        run = RunSettings(**self.document.section(("run",), RUN))
        backend = self._backend()
        sources = {name: self._source(("sources", name)) for name in self.document.table(("sources",))}
        pipelines = {name: self._pipeline(("pipelines", name), sources) for name in self.document.table(("pipelines",))}
        self._check_idle(sources, pipelines)
        return Deployment(backend, sources, pipelines, run)

    def _check_idle(self, sources: Mapping[str, SourceSettings], pipelines: Mapping[str, PipelineSettings]) -> None:
        """Refuse `idle_after` if it has no effect: only ticks and bulk chunks wait for a watermark without rows."""
        for name, source in sources.items():
            readers = [key for key, each in pipelines.items() if name in each.sources]
            if source.idle_after is None or not readers:
                continue
            if not any(isinstance(pipelines[key].service, CumulateSettings | BulkMergeSettings) for key in readers):
                raise self.document.error(
                    ("sources", name, "idle_after"),
                    f'does nothing for {", ".join(readers)}: only a pipeline with service = "cumulate" or'
                    ' "bulk_merge" uses a watermark that advances without rows; leave it out',
                )

    def _backend(self) -> BackendSettings:
        path: KeyPath = ("backend",)
        values = self.document.section(path, BACKEND)
        settings = BackendSettings(**{**values, "retain": self._retention((*path, "retain"))})
        if settings.expire_every and settings.retain.endless:
            raise self.document.error((*path, "expire_every"), f"needs a retention: add {_SOME_RETENTION}")
        if settings.name not in available():
            choice_of_backends = choice(*available())
            self.document.value((*path, "name"), Key(choice_of_backends, required=True))
        self.document.build((*path, "spark"), lambda: check_settings(settings.spark))
        if not load_backend(settings.name).needs_path:
            return settings
        if settings.path is None:
            raise self.document.error(
                (*path, "path"), f"is missing; backend {settings.name} needs a folder for its tables"
            )
        return evolve(settings, path=self._resolve(settings.path))

    def _retention(self, path: KeyPath) -> Retention:
        retention = Retention(**self.document.section(path, RETAIN))
        if retention.endless and path[-1] in self.document.table(path[:-1]):
            raise self.document.error(path, f"sets no retention; write {_SOME_RETENTION}")
        return retention

    def _source(self, path: KeyPath) -> SourceSettings:
        kind = load_source_kind(self.document.value((*path, "kind"), Key(choice(*source_kinds()), required=True)))
        keys = _source_keys(kind)
        if "format" in keys:  # first: else the keys of an unknown format are reported before the format itself
            self.document.value((*path, "format"), keys["format"])
        table = Section(self.document, path, keys)
        values = table.values
        for key in ("event_time", "row_kind"):
            self.document.check_columns((*path, key), values["schema"].names, values[key])
        if (event_time := values["event_time"]) and values["schema"][event_time].name not in TIMES:
            raise self.document.error((*path, "event_time"), f"column {event_time!r} must be a timestamp or date")
        options = {name: values[name] for name in _OF_RECORDS if name in values}
        changes = self._changes(path, values)
        records = self.document.build((*path, "row_kind"), lambda: RecordSpec(**options, changes=changes))
        return SourceSettings(
            str(path[-1]),
            kind.parse(table),
            records,
            values["event_time"],
            values["watermark_delay"],
            values["idle_after"],
            self.document.place(path),
        )

    def _changes(self, path: KeyPath, values: Mapping[str, Any]) -> ChangeSpec:
        """Read the keys of a changelog; errors name the line of each key."""
        if values.get("format") not in CHANGE_FORMATS:
            for name in CHANGES:
                if name in self.document.table(path):
                    raise self.document.error(
                        (*path, name), f"has no effect unless format is {' or '.join(CHANGE_FORMATS)}"
                    )
            return ChangeSpec()
        self.document.check_columns((*path, "key"), values["schema"].names, *values["key"])
        self.document.check_columns((*path, "metadata"), values["schema"].names, *values["metadata"])
        changes = self.document.build((*path, "tables"), lambda: ChangeSpec(**{name: values[name] for name in CHANGES}))
        self.document.build((*path, "metadata"), lambda: changes.check(values["format"], values["schema"]))
        return changes

    def _pipeline(self, path: KeyPath, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        if "." in str(path[-1]):
            raise self.document.error(path, "a pipeline's name must not contain a dot: PIPELINE.VIEW names a view")
        service = self.document.value((*path, "service"), ANY_PIPELINE["service"])
        values = self.document.section(path, SERVICES[service])
        retain = None if values["retain"] is None else self._retention((*path, "retain"))
        plain = {name: values[name] for name in ("expire_every", "epoch_takes")}
        common = {"place": self.document.place(path), "retain": retain, **plain}
        if service == "snapshots":
            return PipelineSettings(None, snapshots(self.document, path, values, self._resolve), **common)
        settings: ServiceSettings
        source: str | Mapping[str, str] | None
        bulk: BulkInput | None = None
        if service == "wide_table":
            settings, source = wide_table(self.document, path, values, sources)
        elif service == "materialized_view":
            settings, source = materialized_view(self.document, path, values), None
        elif service == "bulk_merge":
            settings, source, bulk = bulk_merge(self.document, path, values, sources)
        else:
            settings, source = self._of_one_source(path, service, values, sources)
        pipeline = PipelineSettings(source, settings, values["materialize"], bulk=bulk, **common)
        if values["publish"] is None:
            return pipeline
        read = [sources[name] for name in pipeline.sources]
        return evolve(pipeline, publish=self._output((*path, "publish"), read))

    def _of_one_source(
        self, path: KeyPath, service: str, values: Mapping[str, Any], sources: Mapping[str, SourceSettings]
    ) -> tuple[ServiceSettings, str]:
        if values["source"] not in sources:
            self.document.value((*path, "source"), Key(choice(*sources)))
        source = sources[values["source"]]
        own: Mapping[str, Callable[[KeyPath, Mapping[str, Any], SourceSettings], ServiceSettings]] = {
            "ranking": self._ranking,
            "retraction": self._retraction,
            "cumulate": self._cumulate,
        }
        return own[service](path, values, source), source.name

    def _output(self, path: KeyPath, sources: Iterable[SourceSettings]) -> KafkaOutput:
        output = KafkaOutput(**self.document.section(path, PUBLISH), place=self.document.place(path))
        for source in sources:
            if output.topic in source.input.topics:
                raise self.document.error(
                    (*path, "topic"), f"source {source.name!r} reads {output.topic!r}: publish to another topic"
                )
        return output

    def _ranking(self, path: KeyPath, values: Mapping[str, Any], source: SourceSettings) -> RankingSettings:
        schema = source.records.rows
        order_by = values["order_by"].removeprefix("-")
        self.document.check_columns((*path, "group"), schema.names, *values["group"])
        self.document.check_columns((*path, "id"), schema.names, *values["id"])
        self.document.check_columns((*path, "order_by"), schema.names, order_by)
        self.document.check_columns(
            (*path, "tie_break"), schema.names, *(name.removeprefix("-") for name in values["tie_break"])
        )
        own = {name: values[name] for name in RANKING if name != "order_by"}
        self._check_segments(path, values, Column(order_by, schema[order_by]))
        return self.document.build(
            path,
            lambda: RankingSettings(
                pipeline=str(path[-1]),
                schema=schema,
                order_by=order_by,
                descending=values["order_by"].startswith("-"),
                event_time=source.event_time,
                **own,
            ),
        )

    def _check_segments(self, path: KeyPath, values: Mapping[str, Any], order_by: Column) -> None:
        """Check the segment and then the offset, so that an error names the line of the wrong key."""
        for key, offset in (("segment", "0s"), ("offset", values["offset"])):
            cut = partial(Segments.of, order_by.name, order_by.type, interval=values["segment"], offset=offset)
            self.document.build((*path, key), partial(cut, zone=values["time_zone"], nulls_lowest=False))

    def _retraction(self, path: KeyPath, values: Mapping[str, Any], source: SourceSettings) -> RetractionSettings:
        return retraction(self.document, path, values, source, self._resolve)

    def _cumulate(self, path: KeyPath, values: Mapping[str, Any], source: SourceSettings) -> CumulateSettings:
        return cumulate(self.document, path, values, source)

    def _resolve(self, path: str) -> str:
        return resolve(path, self.document.file.parent)


def _shape(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return every key that the environment may override, nested like the file."""
    backend = {**BACKEND, "retain": RETAIN, "spark": _settings_shape(tree.get("backend"), "spark")}
    kinds = {name: load_source_kind(name) for name in source_kinds()}
    sources = {name: _source_shape(source, kinds) for name, source in _tables(tree, "sources")}
    pipelines = {name: _pipeline_shape(table) for name, table in _tables(tree, "pipelines")}
    return {"run": RUN, "backend": backend, "sources": sources, "pipelines": pipelines}


def _source_keys(kind: SourceKind[Any]) -> dict[str, Key]:
    """Return all keys of a kind of source."""
    if not kind.formats:
        return {**ANY_SOURCE, **kind.keys}
    return {**ANY_SOURCE, **CHANGES, "format": Key(choice(*kind.formats), kind.formats[0]), **kind.keys}


def _source_shape(source: Any, kinds: Mapping[str, SourceKind[Any]]) -> dict[str, Any]:
    """Return the keys of a source: of every kind, as a variable may set the kind; first of all those of its own."""
    own = kinds.get(str(source.get("kind"))) if isinstance(source, dict) else None
    shape: dict[str, Any] = {}
    for kind in (*kinds.values(), *([own] if own else [])):
        free = [name for name, key in kind.keys.items() if key.kind is SETTINGS]
        shape |= _source_keys(kind) | {name: _settings_shape(source, name) for name in free}
    return shape


def _tables(tree: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    table = tree.get(name)
    return list(table.items()) if isinstance(table, dict) else []


def _pipeline_shape(pipeline: Any) -> dict[str, Any]:
    """Return the keys of a pipeline and of the tables in it. A variable cannot add a table such as `publish`."""
    if not isinstance(pipeline, dict):
        return {}
    every = {name: key for keys in SERVICES.values() for name, key in keys.items()}
    own = SERVICES.get(str(pipeline.get("service")), every)
    retain = {"retain": RETAIN} if isinstance(pipeline.get("retain"), dict) else {}
    shapes = (
        retraction_shape,
        measures_shape,
        wide_table_shape,
        snapshots_shape,
        bulk_merge_shape,
        materialized_view_shape,
        _publish_shape,
    )
    return {**own, **retain, **{name: key for shape in shapes for name, key in shape(pipeline).items()}}


def _publish_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    values = pipeline.get("publish")
    if not isinstance(values, dict):
        return {}
    return {"publish": PUBLISH | {name: _settings_shape(values, name) for name in ("rename", "options")}}


def _settings_shape(table: Any, name: str) -> dict[str, Key]:
    """Return the keys of a free table in the file; other keys cannot be derived from a variable's name."""
    values = table.get(name) if isinstance(table, dict) else None
    return {key: Key(TEXT) for key in flatten(values)} if isinstance(values, dict) else {}
