"""A deployment on trial: its sources are fed by hand, and every run is a run of its own, as after a restart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from ..app.api import Headwater
from ..app.backends import Part, load_backend
from ..app.config import BulkFiles, FilesInput, load
from ..app.config.bulk_merge import bulk_spec
from ..app.config.document import parse
from ..domain.bulk_merge import BulkMergeSettings
from ..domain.changelog.settings import CHANGE_FORMATS, ChangeSpec
from ..domain.errors import ConfigError
from .clock import ManualClock
from .failing_store import FailingStore
from .tables import as_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from datetime import date
    from pathlib import Path

    import narwhals as nw

    from ..app.config import Deployment, PipelineSettings, SourceSettings
    from ..app.runner import Runner
    from ..domain.epoch import Publication
    from ..domain.ports import KeptStore
    from ..domain.table import TableSpec
    from .failing_store import Fault
    from .tables import Table


@define(eq=False)
class Trial:
    """A deployment on a backend of the test's choice; what its sources bring, the test says.

    Whatever kind of source a deployment names, its rows come from JSON lines that `feed` lets arrive, one epoch each
    time, through the decoder of the backend's own engine; where the format is a changelog's, from its messages.

    Args:
        folder: where its file, its tables and what arrives are kept.
        backend: the name of the backend.
        exits: closes what was opened, in the end.
        prepare: what else is to be done to a runner before it runs.
        clock: the time that all runs share.
    """

    folder: Path
    backend: str
    exits: ExitStack = field(repr=False)
    prepare: Callable[[Runner], None] = field(default=lambda _runner: None, repr=False)
    clock: ManualClock = field(init=False, factory=ManualClock)
    _only_store: KeptStore | None = field(init=False, default=None)
    _reader: Headwater | None = field(init=False, default=None)
    _loaded: tuple[str, dict[str, str], Deployment] | None = field(init=False, default=None, repr=False)
    _fed: int = field(init=False, default=0)

    @property
    def file(self) -> Path:
        """The deployment file."""
        return self.folder / "deploy.toml"

    def deploy(self, text: str) -> None:
        """Take a deployment, as TOML; its backend is put aside."""
        self.file.write_text(text, encoding="utf-8")
        self._reader = None

    def set(self, key: str, value: str) -> None:
        """Give a key of the deployment another value, as TOML writes it on one line."""
        *table, name = key.split(".")
        _, places = parse(self.file)
        lines = self.file.read_text(encoding="utf-8").splitlines()
        head = f"[{'.'.join(table)}]"
        heads = [number for number, line in enumerate(lines, 1) if line.startswith(head)]
        if at := places.get((*table, name)):
            lines[at - 1] = f"{name} = {value}"
        elif heads:
            lines.insert(heads[0], f"{name} = {value}")
        else:
            lines += [head, f"{name} = {value}"]
        self.deploy("\n".join(lines) + "\n")

    def unset(self, key: str) -> None:
        """Take a key that stands on one line out of the deployment.

        Raises:
            ConfigError: it is not there.
        """
        _, places = parse(self.file)
        lines = self.file.read_text(encoding="utf-8").splitlines()
        if (at := places.get(tuple(key.split(".")))) is None:
            raise ConfigError(f"the deployment does not set {key}")
        self.deploy("\n".join(lines[: at - 1] + lines[at:]) + "\n")

    def deployment(self) -> Deployment:
        """The deployment on this backend, its sources redirected to what arrives here."""
        chosen = {"HEADWATER_BACKEND__NAME": self.backend, "HEADWATER_BACKEND__PATH": str(self.folder / "tables")}
        given = (self.file.read_text(encoding="utf-8"), {**os.environ, **chosen})
        if self._loaded is None or self._loaded[:2] != given:
            read = load(self.file, given[1])
            fed = {name: self._fed_by_hand(source) for name, source in read.sources.items()}
            pipelines = {name: self._filled_by_hand(each) for name, each in read.pipelines.items()}
            self._loaded = (*given, evolve(read, sources=fed, pipelines=pipelines))
        return self._loaded[2]

    def feed(self, source: str, lines: Iterable[str]) -> None:
        """Let records arrive at a source, as JSON lines: one epoch of it.

        Raises:
            ConfigError: the deployment has no such source.
        """
        self._arrive(self._source(source).name, lines)

    def feed_table(self, source: str, table: Table) -> None:
        """Let the rows of a table arrive at a source, values typed by the source's schema; raises as `feed` does.

        Raises:
            ConfigError: the source brings messages, not rows.
        """
        records = self._source(source).records
        if records.format in CHANGE_FORMATS:
            raise ConfigError(f"source {source!r} brings {records.format} messages: feed them as lines")
        self._arrive(source, as_records(table, records))

    def remember(self, source: str, table: Table) -> None:
        """Put rows into the history of a source: a file of it, and so a chunk of its own."""
        settings = self._source(source)
        plain = evolve(
            settings.records, schema=settings.records.columns, row_kind=None, changes=ChangeSpec(), format="json"
        )
        folder = self._past(source)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(list(folder.iterdir())) + 1:06d}.json"
        (folder / name).write_text("".join(f"{line}\n" for line in as_records(table, plain)), encoding="utf-8")

    def fill(self, pipeline: str, table: Table) -> None:
        """Put rows into what a pipeline loads in bulk: a file of it, and so a chunk of its own.

        Raises:
            BadInput: the load has no such column.
            ConfigError: the pipeline loads nothing in bulk.
        """
        found = self.deployment().pipelines[pipeline]
        settings = found.service
        if found.bulk is None or not isinstance(settings, BulkMergeSettings):
            raise ConfigError(f"pipeline {pipeline!r} loads nothing in bulk")
        folder = self._bulk(pipeline)
        name = f"{len(list(folder.iterdir())) + 1:06d}.json"
        lines = as_records(table, bulk_spec(settings, found.bulk).records)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def load(self, pipeline: str, *, stream_from: str = "beginning", fault: Fault | None = None) -> None:
        """Load what there is of the history of a pipeline's topics."""
        headwater = self.open(fault=fault)
        topics = self.deployment().pipelines[pipeline].source
        if not isinstance(topics, Mapping):
            raise ConfigError(f"pipeline {pipeline!r} has no topics, so it has no history either")
        tables = {topic: f"{self._past(name)}:json" for topic, name in topics.items() if self._past(name).is_dir()}
        headwater.bootstrap(pipeline, tables, stream_from=stream_from, files_per_chunk=1)

    def open(self, *, fault: Fault | None = None) -> Headwater:
        """The deployment opened anew, as by another process; with a fault, its stores will fail."""
        headwater = Headwater(self.deployment(), report=lambda _report: None)
        self.exits.callback(headwater.close)
        for runner in headwater.start():
            self._keep(runner)
            runner.clock = self.clock
            self.prepare(runner)
            if fault:
                runner.store = FailingStore(runner.store, fault)
        return headwater

    def run(self, pipelines: Iterable[str] | None = None, *, fault: Fault | None = None) -> None:
        """Run pipelines until nothing waits in their sources, all of them if none is named."""
        self.open(fault=fault).run(pipelines, until_idle=True)

    def roll(self, pipeline: str, cut: date) -> None:
        """Cut the days of a retraction."""
        self.open().roll(pipeline, cut)

    def advance(self, pipeline: str) -> None:
        """Run one epoch of a pipeline."""
        (runner,) = self.open().start([pipeline])
        runner.advance()

    def compact(self, pipeline: str) -> None:
        """Compact all tables of a pipeline."""
        self.open().upkeep(pipeline).compact()

    def run_beside_compaction(self, pipeline: str) -> None:
        """Run a pipeline until idle while its tables are compacted all the time, as by another process."""
        beside = self.open()
        beside.upkeep(pipeline).compact()
        with ThreadPoolExecutor(1) as thread:
            compacting = thread.submit(beside.compact_beside, [pipeline], every=timedelta(milliseconds=50))
            try:
                self.run([pipeline])
            finally:
                beside.stop()
            compacting.result()

    @property
    def reader(self) -> Headwater:
        """One that only asks, opened once and told of each new publication."""
        if self._reader is None:
            self._reader = self.open()
        return self._reader

    def publications(self, pipeline: str) -> list[Publication]:
        """All publications of a pipeline, newest first."""
        (runner,) = self.open().start([pipeline])
        return list(runner.ledger.publications())

    def stored(self, table: str) -> tuple[TableSpec, nw.LazyFrame[Any]]:
        """A table as any engine sees it, ``pipeline.table``, at the newest publication."""
        pipeline, _, _ = table.partition(".")
        (runner,) = self.reader.start([pipeline])
        specs = {spec.name: spec for spec in runner.tables}
        if table not in specs:
            raise ConfigError(f"pipeline {pipeline!r} keeps no table {table!r}; it keeps: {', '.join(specs)}")
        return specs[table], self.reader.snapshot(pipeline).read(table)

    def _source(self, name: str) -> SourceSettings:
        sources = self.deployment().sources
        if name not in sources:
            raise ConfigError(f"the deployment has no source {name!r}; it has: {', '.join(sources) or 'none'}")
        return sources[name]

    def _arrive(self, source: str, lines: Iterable[str]) -> None:
        self._fed += 1
        landing = self._landing(source)
        draft = landing / "_draft"
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        draft.rename(landing / f"{self._fed:06d}.json")

    def _keep(self, runner: Runner) -> None:
        """Tables that do not outlive their process are handed from run to run."""
        if load_backend(self.backend).offers(Part.DURABILITY):
            return
        store: Any = runner.store
        if self._only_store is None:
            self._only_store = store
        runner.store = runner.keeper = self._only_store

    def _fed_by_hand(self, source: SourceSettings) -> SourceSettings:
        told = source.records.format in CHANGE_FORMATS  # messages are fed as they are
        records = source.records if told else evolve(source.records, format="json")
        return evolve(source, input=FilesInput(str(self._landing(source.name))), records=records)

    def _filled_by_hand(self, pipeline: PipelineSettings) -> PipelineSettings:
        if isinstance(pipeline.service, BulkMergeSettings):  # all files of a folder are one log
            pipeline = evolve(pipeline, service=evolve(pipeline.service, lanes=False))
        if not isinstance(pipeline.bulk, BulkFiles) or pipeline.bulk.format != "json":
            return pipeline
        return evolve(pipeline, bulk=evolve(pipeline.bulk, path=str(self._bulk(pipeline.name))))

    def _bulk(self, pipeline: str) -> Path:
        folder = self.folder / "bulk" / pipeline
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _past(self, source: str) -> Path:
        return self.folder / "history" / source

    def _landing(self, source: str) -> Path:
        landing = self.folder / "arrived" / source
        landing.mkdir(parents=True, exist_ok=True)
        return landing
