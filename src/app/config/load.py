"""Read a deployment from its TOML file, wholly checked before anything starts."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from ...adapters.spark.settings import check_settings
from ...domain.bulk_merge import BulkMergeSettings
from ...domain.changelog.feed import FEED_FORMATS
from ...domain.changelog.settings import BEFORE, CHANGE_FORMATS, TIME_UNITS, TRANSACTIONS, ChangeSpec
from ...domain.cumulate import CumulateSettings
from ...domain.dead_letter import USUAL_LIMIT
from ...domain.ranking import METHODS, RankingSettings
from ...domain.retention import Retention
from ...domain.schema import TIMES, Column
from ...domain.segments import Segments
from ...domain.source import FORMATS, RecordSpec
from ..backends import available, load_backend
from .bulk_merge import BULK_MERGE, bulk_merge, bulk_merge_shape
from .cumulate import CUMULATE, cumulate
from .document import parse
from .environment import overlay
from .kinds import (
    DURATION,
    FLAG,
    LIMIT,
    LOCAL_PATH,
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
from .materialized_view import MATERIALIZED_VIEW, materialized_view, materialized_view_shape
from .measures import measures_shape
from .paths import resolve
from .retraction import RETRACTION, retraction, retraction_shape
from .snapshots import SNAPSHOTS, snapshots, snapshots_shape
from .values import (
    BackendSettings,
    BulkInput,
    Deployment,
    FilesInput,
    Input,
    KafkaInput,
    KafkaOutput,
    PipelineSettings,
    RunSettings,
    SourceSettings,
    StreamInput,
)
from .wide_table import WIDE_TABLE, wide_table, wide_table_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...domain.retraction import RetractionSettings
    from .document import Document
    from .lines import KeyPath
    from .values import ServiceSettings

_NO_WAIT, _A_SECOND = DURATION.read("0s"), DURATION.read("1s")
_FROM_ZERO, _FROM_ONE = whole(0), whole(1)
RUN = {
    "poll": Key(DURATION, _A_SECOND),
    "retries": Key(_FROM_ZERO, 5),
    "retry_wait": Key(DURATION, _A_SECOND),
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
KIND = Key(choice("files", "kafka", "stream"), required=True)
ANY_SOURCE = {
    "kind": KIND,
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
SOURCES: Mapping[str, Mapping[str, Key]] = {
    "files": ANY_SOURCE
    | CHANGES
    | {
        "format": Key(choice(*FORMATS), "json"),
        "path": Key(LOCAL_PATH, required=True),
        "files_per_epoch": Key(_FROM_ONE, 1),
        "delimiter": Key(TEXT, ","),
    },
    "kafka": ANY_SOURCE
    | CHANGES
    | {
        "format": Key(choice("json", *CHANGE_FORMATS), "json"),
        "servers": Key(TEXT, required=True),
        "topics": Key(SOME_TEXTS, required=True),
        "max_rows_per_epoch": Key(_FROM_ONE, 100_000),
        "options": Key(SETTINGS, {}),
    },
    "stream": ANY_SOURCE,
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
        environ: the environment that overrides it; the process's own if not given.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
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
        """Refuse what would do nothing: only ticks and chunks of a bulk load wait for the watermark alone."""
        for name, source in sources.items():
            readers = [key for key, each in pipelines.items() if name in each.sources]
            if source.idle_after is None or not readers:
                continue
            if not any(isinstance(pipelines[key].service, CumulateSettings | BulkMergeSettings) for key in readers):
                raise self.document.error(
                    ("sources", name, "idle_after"),
                    f'does nothing for {", ".join(readers)}: only a pipeline with service = "cumulate" or'
                    ' "bulk_merge" makes anything of a watermark that moves without rows; leave it out',
                )

    def _backend(self) -> BackendSettings:
        path: KeyPath = ("backend",)
        given = self.document.section(path, BACKEND)
        settings = BackendSettings(**{**given, "retain": self._retention((*path, "retain"))})
        if settings.expire_every and settings.retain.endless:
            raise self.document.error((*path, "expire_every"), f"needs to be told what to keep: add {_SOME_RETENTION}")
        if settings.name not in available():
            choice_of_backends = choice(*available())
            self.document.value((*path, "name"), Key(choice_of_backends, required=True))
        self.document.built((*path, "spark"), lambda: check_settings(settings.spark))
        if not load_backend(settings.name).needs_path:
            return settings
        if settings.path is None:
            raise self.document.error(
                (*path, "path"), f"is missing; backend {settings.name} needs a folder for its tables"
            )
        return evolve(settings, path=self._resolved(settings.path))

    def _retention(self, path: KeyPath) -> Retention:
        retention = Retention(**self.document.section(path, RETAIN))
        if retention.endless and path[-1] in self.document.table(path[:-1]):
            raise self.document.error(path, f"says nothing; write {_SOME_RETENTION}")
        return retention

    def _source(self, path: KeyPath) -> SourceSettings:
        kind = self.document.value((*path, "kind"), KIND)
        keys = SOURCES[kind]
        if "format" in keys:  # first: keys that only an unknown format has would hide that it is unknown
            self.document.value((*path, "format"), keys["format"])
        given = self.document.section(path, keys)
        for key in ("event_time", "row_kind"):
            self.document.check_columns((*path, key), given["schema"].names, given[key])
        if (event_time := given["event_time"]) and given["schema"][event_time].name not in TIMES:
            raise self.document.error((*path, "event_time"), f"column {event_time!r} must be a timestamp or date")
        kept = {
            name: given[name] for name in ("schema", "format", "row_kind", "time_zone", "delimiter") if name in given
        }
        changes = self._changes(path, given)
        records = self.document.built((*path, "row_kind"), lambda: RecordSpec(**kept, changes=changes))
        return SourceSettings(
            str(path[-1]),
            self._input(kind, given),
            records,
            given["event_time"],
            given["watermark_delay"],
            given["idle_after"],
            self.document.place(path),
        )

    def _changes(self, path: KeyPath, given: Mapping[str, Any]) -> ChangeSpec:
        """How a changelog is read, each key checked at its own place."""
        if given.get("format") not in CHANGE_FORMATS:
            for name in CHANGES:
                if name in self.document.table(path):
                    raise self.document.error(
                        (*path, name), f"says nothing unless format is {' or '.join(CHANGE_FORMATS)}"
                    )
            return ChangeSpec()
        self.document.check_columns((*path, "key"), given["schema"].names, *given["key"])
        self.document.check_columns((*path, "metadata"), given["schema"].names, *given["metadata"])
        changes = self.document.built((*path, "tables"), lambda: ChangeSpec(**{name: given[name] for name in CHANGES}))
        self.document.built((*path, "metadata"), lambda: changes.check(given["format"], given["schema"]))
        return changes

    def _input(self, kind: str, given: Mapping[str, Any]) -> Input:
        if kind == "files":
            return FilesInput(self._resolved(given["path"]), given["files_per_epoch"])
        if kind == "stream":
            return StreamInput()
        return KafkaInput(given["servers"], given["topics"], given["max_rows_per_epoch"], given["options"])

    def _pipeline(self, path: KeyPath, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        if "." in str(path[-1]):
            raise self.document.error(path, "a pipeline's name has no dot: PIPELINE.VIEW names a view")
        service = self.document.value((*path, "service"), ANY_PIPELINE["service"])
        given = self.document.section(path, SERVICES[service])
        retain = None if given["retain"] is None else self._retention((*path, "retain"))
        plain = {name: given[name] for name in ("expire_every", "epoch_takes")}
        kept = {"place": self.document.place(path), "retain": retain, **plain}
        if service == "snapshots":
            return PipelineSettings(None, snapshots(self.document, path, given, self._resolved), **kept)
        settings: ServiceSettings
        source: str | Mapping[str, str] | None
        loaded: BulkInput | None = None
        if service == "wide_table":
            settings, source = wide_table(self.document, path, given, sources)
        elif service == "materialized_view":
            settings, source = materialized_view(self.document, path, given), None
        elif service == "bulk_merge":
            settings, source, loaded = bulk_merge(self.document, path, given, sources, self._resolved)
        else:
            settings, source = self._of_one_source(path, service, given, sources)
        pipeline = PipelineSettings(source, settings, given["materialize"], bulk=loaded, **kept)
        if given["publish"] is None:
            return pipeline
        read = [sources[name] for name in pipeline.sources]
        return evolve(pipeline, publish=self._output((*path, "publish"), read))

    def _of_one_source(
        self, path: KeyPath, service: str, given: Mapping[str, Any], sources: Mapping[str, SourceSettings]
    ) -> tuple[ServiceSettings, str]:
        if given["source"] not in sources:
            self.document.value((*path, "source"), Key(choice(*sources)))
        source = sources[given["source"]]
        own: Mapping[str, Callable[[KeyPath, Mapping[str, Any], SourceSettings], ServiceSettings]] = {
            "ranking": self._ranking,
            "retraction": self._retraction,
            "cumulate": self._cumulate,
        }
        return own[service](path, given, source), source.name

    def _output(self, path: KeyPath, sources: Iterable[SourceSettings]) -> KafkaOutput:
        output = KafkaOutput(**self.document.section(path, PUBLISH), place=self.document.place(path))
        for source in sources:
            if isinstance(source.input, KafkaInput) and output.topic in source.input.topics:
                raise self.document.error(
                    (*path, "topic"), f"source {source.name!r} reads {output.topic!r}: publish to another topic"
                )
        return output

    def _ranking(self, path: KeyPath, given: Mapping[str, Any], source: SourceSettings) -> RankingSettings:
        schema = source.records.rows
        order_by = given["order_by"].removeprefix("-")
        self.document.check_columns((*path, "group"), schema.names, *given["group"])
        self.document.check_columns((*path, "id"), schema.names, *given["id"])
        self.document.check_columns((*path, "order_by"), schema.names, order_by)
        self.document.check_columns(
            (*path, "tie_break"), schema.names, *(name.removeprefix("-") for name in given["tie_break"])
        )
        own = {name: given[name] for name in RANKING if name != "order_by"}
        self._check_segments(path, given, Column(order_by, schema[order_by]))
        return self.document.built(
            path,
            lambda: RankingSettings(
                pipeline=str(path[-1]),
                schema=schema,
                order_by=order_by,
                descending=given["order_by"].startswith("-"),
                event_time=source.event_time,
                **own,
            ),
        )

    def _check_segments(self, path: KeyPath, given: Mapping[str, Any], order_by: Column) -> None:
        """Refuse at its own line what the service would refuse: the segment, then the offset."""
        for key, offset in (("segment", "0s"), ("offset", given["offset"])):
            cut = partial(Segments.of, order_by.name, order_by.type, interval=given["segment"], offset=offset)
            self.document.built((*path, key), partial(cut, zone=given["time_zone"], nulls_lowest=False))

    def _retraction(self, path: KeyPath, given: Mapping[str, Any], source: SourceSettings) -> RetractionSettings:
        return retraction(self.document, path, given, source, self._resolved)

    def _cumulate(self, path: KeyPath, given: Mapping[str, Any], source: SourceSettings) -> CumulateSettings:
        return cumulate(self.document, path, given, source)

    def _resolved(self, path: str) -> str:
        return resolve(path, self.document.file.parent)


def _shape(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Every key that the environment may override, nested as the file is."""
    backend = {**BACKEND, "retain": RETAIN, "spark": _settings_shape(tree.get("backend"), "spark")}
    every_source = {**SOURCES["files"], **SOURCES["kafka"]}
    sources = {
        name: {**every_source, "options": _settings_shape(source, "options")}
        for name, source in _tables(tree, "sources")
    }
    pipelines = {name: _pipeline_shape(table) for name, table in _tables(tree, "pipelines")}
    return {"run": RUN, "backend": backend, "sources": sources, "pipelines": pipelines}


def _tables(tree: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    table = tree.get(name)
    return list(table.items()) if isinstance(table, dict) else []


def _pipeline_shape(pipeline: Any) -> dict[str, Any]:
    """The keys of a pipeline, and of those tables that it has: a variable alone does not make it publish, say."""
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
    given = pipeline.get("publish")
    if not isinstance(given, dict):
        return {}
    return {"publish": PUBLISH | {name: _settings_shape(given, name) for name in ("rename", "options")}}


def _settings_shape(table: Any, name: str) -> dict[str, Key]:
    """The keys of a free table that the file has: others cannot be told from their variable's name."""
    given = table.get(name) if isinstance(table, dict) else None
    return {key: Key(TEXT) for key in flatten(given)} if isinstance(given, dict) else {}
