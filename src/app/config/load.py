"""Reads a deployment from its TOML file and checks all of it before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ...adapters.spark.settings import check_settings
from ...domain.errors import ConfigError
from ...domain.ledger.generation import SEPARATOR
from ...domain.ledger.retention import Retention
from ...domain.source.changelog.settings import CHANGE_FORMATS, ChangeSpec
from ...domain.source.csv_format import CsvFormat
from ...domain.source.record_spec import REGISTRY_FORMATS, RecordSpec
from ...domain.table.schema import TIMES
from ..deployment.deployment import (
    AlertSettings,
    BackendSettings,
    Deployment,
    KafkaOutput,
    PipelineSettings,
    RunSettings,
    SourceSettings,
    TelemetrySettings,
)
from ..document.document import Document, parse, parse_text
from ..document.environment import check_misspelt, overlay
from ..document.lines import KeyPath
from ..document.paths import resolve
from ..document.plain import check_type, plain
from ..document.section import Section
from ..document.value_types import (
    Key,
    choice,
)
from ..registry.backends import available, chosen_backend, load_backend
from ..registry.installed import load_each
from ..registry.sources import load_source_kind, source_kinds
from ..services import kind as services
from ..services.keys import PUBLISH, RETAIN
from .keys import ALERTS, BACKEND, CHANGES, RUN, TELEMETRY, keys_within, source_keys

_WITH_TIME_UNIT = ("json", "csv")
_OF_RECORDS = ("schema", "format", "row_kind", "time_zone", "layout")
_SOME_RETENTION = 'retain = { versions = 5 }, { duration = "2d" } or both'
_TEXT, _PROGRAM = Path("<text>"), Path("this program")
"""Stand for the file in messages."""
_PIPELINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,199}")
_TABLES = ("run", "alerts", "telemetry", "backend", "sources", "pipelines")


def load(file: str | PathLike[str], environ: Mapping[str, str] | None = None) -> Deployment:
    """Read and check a deployment file.

    Args:
        file: the TOML file; relative paths in it start from its folder.
        environ: environment variables that override it; those of the process if not set.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    path = Path(check_type(file, str | PathLike, "the path of a TOML file"))
    return _load_written(path, *parse(path), environ)


def load_text(text: str, environ: Mapping[str, str] | None = None) -> Deployment:
    """Read and check the text of a deployment file; see `load`. Relative paths start from the current folder."""
    text = check_type(text, str, "the text of a deployment file; load or from_config reads a file")
    return _load_written(_TEXT, *parse_text(text, _TEXT), environ)


def load_tables(
    tables: Mapping[str, Any], environ: Mapping[str, str] | None = None, *, whole: bool = True
) -> Deployment:
    """Read and check a deployment from the tables of a file as a dict; see `load_text`.

    Tuples, timedeltas and paths stand for lists and texts. A key whose value is None is not set.

    Args:
        tables: the tables.
        environ: see `load`.
        whole: whether no more sources and pipelines will come; else a setting is allowed that only they may use.

    Raises:
        ConfigError: names the key of the first mistake, and what is allowed.
    """
    tables = check_type(tables, Mapping, "a dict of the tables of a deployment file")
    return _load(_PROGRAM, plain(tables), {}, environ, whole=whole)


def _load_written(
    file: Path, tree: dict[str, Any], lines: Mapping[KeyPath, int], environ: Mapping[str, str] | None
) -> Deployment:
    """Load what stands in a file or text. Not for the tables of a program, which may read any variable itself."""
    check_misspelt(tree, _variables(environ), keys_within(Document(file, tree, lines, {})))
    return _load(file, tree, lines, environ)


def _load(
    file: Path,
    tree: dict[str, Any],
    lines: Mapping[KeyPath, int],
    environ: Mapping[str, str] | None,
    *,
    whole: bool = True,
) -> Deployment:
    document = overlay(file, tree, lines, _variables(environ), keys_within(Document(file, tree, lines, {})))
    return _Loader(document).deployment(whole=whole)


def _variables(environ: object) -> Mapping[str, str]:
    """Environment variables that a program gives; those of the process if None.

    Raises:
        ConfigError: they are not a mapping of texts; the message does not show them.
    """
    if environ is None:
        return os.environ
    if not isinstance(environ, Mapping) or not all(isinstance(each, str) for pair in environ.items() for each in pair):
        raise ConfigError('environ is not a dict of texts, such as {"HEADWATER_RUN__RETRIES": "9"}')
    return environ


@frozen
class _Loader:
    document: Document

    def deployment(self, *, whole: bool) -> Deployment:
        for name in self.document.tree:
            if name not in _TABLES:
                raise self.document.unknown((name,), "table", _TABLES)
        run = RunSettings(**self.document.section(("run",), RUN))
        alerts = AlertSettings(**self.document.section(("alerts",), ALERTS))
        telemetry = TelemetrySettings(**self.document.section(("telemetry",), TELEMETRY))
        backend = self._backend()
        sources = {name: self._source(("sources", name)) for name in self.document.table(("sources",))}
        pipelines = {name: self._pipeline(("pipelines", name), sources) for name in self.document.table(("pipelines",))}
        for name, each in pipelines.items():
            self._check_expiry(("pipelines", name), each.expire_every, each.retain or backend.retain)
        self._check_outputs(pipelines)
        if whole:
            self._check_watermarks(sources, pipelines)
        return Deployment(backend, sources, pipelines, run, alerts, telemetry)

    def _check_watermarks(
        self, sources: Mapping[str, SourceSettings], pipelines: Mapping[str, PipelineSettings]
    ) -> None:
        """Refuse settings of watermarks that have no effect.

        Only ticks and bulk chunks wait for a watermark without rows, and only bulk chunks for one without event times.
        """
        for name, source in sources.items():
            readers = [key for key, each in pipelines.items() if name in each.sources]
            if not readers or any(services.kind_of(pipelines[key]).uses_idle for key in readers):
                continue
            if source.watermark_delay and source.event_time is None:
                raise self.document.error(
                    ("sources", name, "watermark_delay"),
                    "does nothing without event_time, whose newest value the watermark follows: name that column, or"
                    " leave watermark_delay out",
                )
            if source.idle_after is not None:
                known = load_each(services.available(), services.load_service)
                using = " or ".join(f'"{each}"' for each, kind in known.items() if kind.uses_idle)
                raise self.document.error(
                    ("sources", name, "idle_after"),
                    f"does nothing for {', '.join(readers)}: only a pipeline with service = {using} uses a watermark"
                    " that advances without rows; leave it out",
                )

    def _backend(self) -> BackendSettings:
        path: KeyPath = ("backend",)
        values = self.document.section(path, {**BACKEND, "name": Key(choice(*available()), required=True)})
        self.document.build((*path, "name"), lambda: load_backend(values["name"]))
        settings = BackendSettings(**{**values, "retain": self._retention((*path, "retain"))})
        self._check_expiry(path, settings.expire_every, settings.retain)
        self.document.build((*path, "spark"), lambda: check_settings(settings.spark))
        backend = self.document.build((*path, "engine"), lambda: chosen_backend(settings))
        if settings.local_mb is not None and not backend.engines and not self._is_replaced(path):
            raise self.document.error((*path, "local_mb"), 'does nothing without engine = "auto": remove it')
        if not backend.needs_path:
            return settings
        if settings.path is None:
            raise self.document.error(
                (*path, "path"), f"is missing; backend {settings.name} needs a folder for its tables"
            )
        return evolve(settings, path=self.document.build((*path, "path"), lambda: self._lake(settings.path or "")))

    def _is_replaced(self, path: KeyPath) -> bool:
        """Whether the environment chooses another backend or engine than the file, which has the right `local_mb`."""
        chosen = any(self.document.from_environment((*path, key)) for key in ("name", "engine"))
        return chosen and not self.document.from_environment((*path, "local_mb"))

    def _check_expiry(self, path: KeyPath, every: int | None, retain: Retention) -> None:
        if every and retain.endless:
            raise self.document.error((*path, "expire_every"), f"needs a retention: add {_SOME_RETENTION}")

    def _lake(self, path: str) -> str:
        folder = resolve(path, self.document.file.parent)
        places = (folder, *map(str, Path(folder).parents))
        if occupied := [each for each in places if os.path.isfile(each)]:  # noqa: PTH113 - Path's may raise an OSError
            raise ConfigError(f"{occupied[0]} is a file; name a folder for the tables")
        return folder

    def _retention(self, path: KeyPath) -> Retention:
        retention = Retention(**self.document.section(path, RETAIN))
        if retention.endless and path[-1] in self.document.table(path[:-1]):
            raise self.document.error(path, f"sets no retention; write {_SOME_RETENTION}")
        return retention

    def _source(self, path: KeyPath) -> SourceSettings:
        if not path[-1]:
            raise self.document.error(path, "a source's name must not be empty")
        kind = load_source_kind(self.document.value((*path, "kind"), Key(choice(*source_kinds()), required=True)))
        keys = source_keys(kind)
        if "format" in keys:  # first: else the keys of an unknown format are reported before the format itself
            self.document.value((*path, "format"), keys["format"])
        table = Section(self.document, path, keys)
        values = table.values
        for key in ("event_time", "row_kind"):
            self.document.check_columns((*path, key), values["schema"].names, values[key])
        if (event_time := values["event_time"]) and values["schema"][event_time].name not in TIMES:
            raise self.document.error((*path, "event_time"), f"column {event_time!r} must be a timestamp or date")
        records = self._records(path, table)
        return SourceSettings(
            str(path[-1]),
            kind.parse(table),
            records,
            values["event_time"],
            values["watermark_delay"],
            values["idle_after"],
            self.document.place(path),
        )

    def _records(self, path: KeyPath, table: Section) -> RecordSpec:
        values = table.values
        options = {name: values[name] for name in _OF_RECORDS if name in values}
        if (form := values.get("format")) in REGISTRY_FORMATS:
            options |= dict(zip(("format", "encoding"), REGISTRY_FORMATS[form], strict=True))
        changes = self._changes(path, values, options.get("format"))
        csv = self.document.build(path, lambda: CsvFormat(**table.fields(CsvFormat)))
        return self.document.build(path, lambda: RecordSpec(**options, changes=changes, csv=csv))

    def _changes(self, path: KeyPath, values: Mapping[str, Any], form: str | None) -> ChangeSpec:
        """Read the keys of a changelog; errors name the line of each key."""
        if form is None or form not in CHANGE_FORMATS:
            plain = values.get("format") in _WITH_TIME_UNIT
            for name in CHANGES:
                if name in self.document.table(path) and not (plain and name == "time_unit"):
                    allowed = (*(_WITH_TIME_UNIT if name == "time_unit" else ()), *CHANGE_FORMATS)
                    raise self.document.error((*path, name), f"has no effect unless format is {' or '.join(allowed)}")
            return ChangeSpec(time_unit=values["time_unit"]) if plain else ChangeSpec()
        self.document.check_columns((*path, "key"), values["schema"].names, *values["key"])
        self.document.check_columns((*path, "metadata"), values["schema"].names, *values["metadata"])
        changes = self.document.build((*path, "tables"), lambda: ChangeSpec(**{name: values[name] for name in CHANGES}))
        self.document.build((*path, "metadata"), lambda: changes.check(form, values["schema"]))
        return changes

    def _pipeline(self, path: KeyPath, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        if "." in str(path[-1]):
            raise self.document.error(path, "a pipeline's name must not contain a dot: PIPELINE.VIEW names a view")
        if SEPARATOR in str(path[-1]):
            raise self.document.error(path, f"a pipeline's name must not contain {SEPARATOR}: a rebuild uses it")
        if not _PIPELINE.fullmatch(str(path[-1])):
            raise self.document.error(
                path,
                "a pipeline's name consists of 1 to 200 letters (a to z), digits, _ and -: a folder is named by it",
            )
        name = self.document.value((*path, "service"), Key(choice(*services.available()), required=True))
        kind = services.load_service(name)
        table = Section(self.document, path, kind.keys)
        retain = None if table["retain"] is None else self._retention((*path, "retain"))
        common = {
            name: table.values[name] for name in ("expire_every", "epoch_takes", "materialize") if name in table.values
        }
        pipeline = evolve(
            kind.parse(table, sources),
            place=self.document.place(path),
            materialize_place=self.document.place((*path, "materialize")),
            retain=retain,
            **common,
        )
        if table.values.get("publish") is None:
            return pipeline
        read = [sources[name] for name in pipeline.sources]
        return evolve(pipeline, publish=self._output((*path, "publish"), read))

    def _output(self, path: KeyPath, sources: Iterable[SourceSettings]) -> KafkaOutput:
        output = KafkaOutput(**self.document.section(path, PUBLISH), place=self.document.place(path))
        for source in sources:
            if read := next((each for each in output.topics if each in source.input.topics), None):
                raise self.document.error(
                    (*path, "topic"), f"source {source.name!r} reads {read!r}: publish to another topic"
                )
        return output

    def _check_outputs(self, pipelines: Mapping[str, PipelineSettings]) -> None:
        """Refuse two pipelines that write one topic: a reader could not tell whose rows a record takes back."""
        taken: dict[tuple[str, str], str] = {}
        outputs = ((name, each.publish) for name, each in pipelines.items() if each.publish)
        for name, output in outputs:
            for server, topic in product(output.servers.split(","), output.topics):
                other = taken.setdefault((server.strip(), topic), name)
                if other != name:
                    raise self.document.error(
                        ("pipelines", name, "publish", "topic"),
                        f"pipeline {other!r} writes topic {topic!r}: publish to another topic",
                    )
