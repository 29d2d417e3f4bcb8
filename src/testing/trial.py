"""A deployment under test. The test supplies the rows of its sources; each run starts as after a restart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import narwhals as nw
from attrs import define, evolve, field

from ..app.api import Headwater
from ..app.config import BulkFiles, Deployment, FilesInput, PipelineSettings, SourceSettings, load
from ..app.registry.backends import Part, load_backend
from ..app.run.auto import AutoRunner
from ..app.run.backoff import Backoff
from ..app.run.rebuild import Rebuild, Rebuilt
from ..app.run.runner import Runner
from ..app.services.bulk_merge import bulk_spec
from ..domain.epoch.epoch import Publication
from ..domain.errors import ConfigError
from ..domain.ports import KeptStore
from ..domain.service.bulk_merge import BulkMergeSettings
from ..domain.source.changelog.settings import CHANGE_FORMATS, ChangeSpec
from ..domain.table.spec import TableSpec
from .clock import ManualClock
from .edit_toml import set_key, unset_key
from .failing_store import FailingStore, Fault
from .tables import Table, as_records


@define(eq=False)
class Trial:
    """A deployment on the backend that the test chooses, with rows that the test supplies.

    Whatever kind of source a deployment names, its rows come from JSON lines, or from messages if its format is a
    changelog. `feed` adds one epoch of them. They go through the decoder of the backend's own engine.

    Args:
        folder: the folder of the deployment file, the tables and the files of the sources.
        backend: the name of the backend; with an engine of its own as ``name:engine``. Just ``delta`` or
            ``hudi-mor`` is Spark.
        exits: closes the opened deployments when it is closed.
        prepare: is called with each runner before it runs; does nothing by default.
        clock: the clock that all runs share.
    """

    folder: Path
    backend: str
    exits: ExitStack = field(repr=False)
    prepare: Callable[[Runner], None] = field(default=lambda _runner: None, repr=False)
    clock: ManualClock = field(init=False, factory=ManualClock)
    _shared_store: KeptStore | None = field(init=False, default=None)
    _reader: Headwater | None = field(init=False, default=None)
    _loaded: tuple[str, dict[str, str], Deployment] | None = field(init=False, default=None, repr=False)
    _fed: int = field(init=False, default=0)

    @property
    def file(self) -> Path:
        return self.folder / "deploy.toml"

    def deploy(self, text: str) -> None:
        """Set the deployment file, as TOML; its backend is ignored."""
        self.file.write_text(text, encoding="utf-8")
        self._reader = None

    def set(self, key: str, value: str) -> None:
        """Set a key of the deployment file; see `set_key`."""
        self.deploy(set_key(self._text, key, value, self.file))

    def unset(self, key: str) -> None:
        """Remove a key from the deployment file; see `unset_key`."""
        self.deploy(unset_key(self._text, key, self.file))

    @property
    def _text(self) -> str:
        if not self.file.exists():
            raise ConfigError("there is no deployment: begin the scenario with `Given the deployment FILE`")
        return self.file.read_text(encoding="utf-8")

    def deployment(self) -> Deployment:
        """The deployment on this backend; its sources read what the test feeds."""
        name, _, engine = self.backend.partition(":")
        chosen = {"HEADWATER_BACKEND__NAME": name, "HEADWATER_BACKEND__PATH": str(self.folder / "tables")}
        if engine or name in {"delta", "hudi-mor", "hudi-cow"}:  # one engine, so that a test knows which
            chosen["HEADWATER_BACKEND__ENGINE"] = engine or "spark"
        inputs = (self._text, {**os.environ, **chosen})
        if self._loaded is None or self._loaded[:2] != inputs:
            deployment = load(self.file, inputs[1])
            sources = {name: self._redirect_source(source) for name, source in deployment.sources.items()}
            pipelines = {name: self._redirect_bulk(each) for name, each in deployment.pipelines.items()}
            self._loaded = (*inputs, evolve(deployment, sources=sources, pipelines=pipelines))
        return self._loaded[2]

    def feed(self, source: str, lines: Iterable[str]) -> None:
        """Add records to a source, as JSON lines; together they make one epoch.

        Raises:
            ConfigError: the deployment has no such source.
        """
        self._arrive(self._source(source).name, lines)

    def feed_table(self, source: str, table: Table) -> None:
        """Add the rows of a table to a source, as one epoch; values are typed by the source's schema.

        Raises:
            BadInput: the source has no such column.
            ConfigError: the deployment has no such source, or the source reads messages and not rows.
        """
        records = self._source(source).records
        if records.format in CHANGE_FORMATS:
            raise ConfigError(f"source {source!r} reads {records.format} messages, not rows: feed them as lines")
        self._arrive(source, as_records(table, records))

    def remember(self, source: str, table: Table) -> None:
        """Add a file of rows to the history of a source. Each file is one chunk."""
        settings = self._source(source)
        plain = evolve(
            settings.records, schema=settings.records.columns, row_kind=None, changes=ChangeSpec(), format="json"
        )
        folder = self._past(source)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(list(folder.iterdir())) + 1:06d}.json"
        (folder / name).write_text("".join(f"{line}\n" for line in as_records(table, plain)), encoding="utf-8")

    def fill(self, pipeline: str, table: Table, name: str | None = None) -> None:
        """Add a file of rows to a pipeline's bulk load. Each file is one chunk.

        Args:
            pipeline: the pipeline.
            table: the rows.
            name: the name of the file; if not set, it sorts after the others.

        Raises:
            BadInput: the load has no such column.
            ConfigError: the pipeline has no bulk load.
        """
        found = self.deployment().pipelines[pipeline]
        settings = found.service
        if found.bulk is None or not isinstance(settings, BulkMergeSettings):
            raise ConfigError(f"pipeline {pipeline!r} has no bulk load")
        folder = self._bulk(pipeline)
        name = name or f"{len(list(folder.iterdir())) + 1:06d}.json"
        lines = as_records(table, bulk_spec(settings, found.bulk).records)
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def replace_first_chunk(self, pipeline: str, table: Table) -> None:
        """Remove the first file of a pipeline's bulk load, and add one whose name sorts right after it."""
        first = min(self._bulk(pipeline).iterdir())
        first.unlink()
        self.fill(pipeline, table, f"{first.stem}-late.json")

    def lose_first_file(self, source: str) -> None:
        """Remove the first file that has arrived at a source."""
        min(self._landing(self._source(source).name).iterdir()).unlink()

    def lose_last_record(self, source: str) -> None:
        """Overwrite the last record that has arrived at a source with blanks, as a topic loses one by compaction."""
        newest = max(self._landing(self._source(source).name).iterdir())
        *others, last = newest.read_text(encoding="utf-8").splitlines(keepends=True)
        newest.write_text("".join([*others, f"{' ' * (len(last.encode()) - 1)}\n"]), encoding="utf-8")

    def load(self, pipeline: str, *, stream_from: str = "beginning", fault: Fault | None = None) -> None:
        """Load the history of a pipeline's topics, as far as `remember` has added any.

        Raises:
            ConfigError: the pipeline has no topics.
        """
        headwater = self.open(fault=fault)
        topics = self.deployment().pipelines[pipeline].source
        if not isinstance(topics, Mapping):
            raise ConfigError(f"pipeline {pipeline!r} has no topics, so it has no history to load")
        tables = {topic: f"{self._past(name)}:json" for topic, name in topics.items() if self._past(name).is_dir()}
        headwater.bootstrap(pipeline, tables, stream_from=stream_from, files_per_chunk=1)

    def open(self, *, fault: Fault | None = None) -> Headwater:
        """Open the deployment again, as another process would; with a fault, its stores fail."""
        headwater = Headwater(self.deployment(), report=lambda _report: None)
        self.exits.callback(headwater.close)
        for runner in headwater.start():
            self._prepare(runner, fault)
        return headwater

    def rebuild(
        self,
        pipeline: str,
        *,
        fault: Fault | None = None,
        at_record: Fault | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Rebuilt | None:
        """Build a pipeline again with the present deployment file.

        Args:
            pipeline: its name.
            fault: of the store of the new tables.
            at_record: of the store that has the record of the generations.
            meanwhile: called when the rebuild has begun.
        """
        rebuild = self.prepare_rebuild(pipeline, fault=fault, at_record=at_record)
        make = rebuild.make_twin

        def make_twin(generation: int) -> Runner:
            meanwhile()
            return make(generation)

        rebuild.make_twin = make_twin
        return rebuild.run()

    def prepare_rebuild(self, pipeline: str, *, fault: Fault | None = None, at_record: Fault | None = None) -> Rebuild:
        """Prepare a rebuild, as another process would; see `rebuild`."""
        rebuild = self.open(fault=at_record).prepare_rebuild(pipeline)
        make = rebuild.make_twin

        def make_twin(generation: int) -> Runner:
            twin = make(generation)
            self._prepare(twin, fault)
            return twin

        rebuild.make_twin, self._reader = make_twin, None
        return rebuild

    def _prepare(self, runner: Runner, fault: Fault | None) -> None:
        self._share_store(runner)
        runner.clock = self.clock
        runner.options = evolve(runner.options, backoff=Backoff(), beside=False)  # without chance
        self.prepare(runner)
        if isinstance(runner, AutoRunner):
            runner.make_large = self._prepare_large(runner.make_large, fault)
        if fault:
            runner.store = FailingStore(runner.store, fault)

    def _prepare_large(
        self, make: Callable[[AutoRunner], Runner], fault: Fault | None
    ) -> Callable[[AutoRunner], Runner]:
        """Make the runner of the large engine as the other one: with the same fault, which happens on each engine."""

        def prepared(small: AutoRunner) -> Runner:
            large = make(small)
            self.prepare(large)
            if fault:
                large.store = FailingStore(large.store, fault)
            return large

        return prepared

    def run(self, pipelines: Iterable[str] | None = None, *, fault: Fault | None = None) -> None:
        """Run pipelines until their sources have no more rows; all pipelines if no name is given."""
        self.open(fault=fault).run(pipelines, until_idle=True)

    def roll(self, pipeline: str, cut: date) -> None:
        self.open().roll(pipeline, cut)

    def advance(self, pipeline: str) -> None:
        (runner,) = self.open().start([pipeline])
        runner.advance()

    def compact(self, pipeline: str) -> None:
        self.open().upkeep(pipeline).compact()

    def run_beside_compaction(self, pipeline: str) -> None:
        """Run a pipeline until idle while another `Headwater` keeps compacting its tables, as a process would."""
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
        """A `Headwater` that only reads. It is opened once for each deployment file, and sees each new publication."""
        if self._reader is None:
            self._reader = self.open()
        return self._reader

    def publications(self, pipeline: str) -> list[Publication]:
        """All publications of a pipeline, newest first."""
        (runner,) = self.open().start([pipeline])
        return list(runner.ledger.publications())

    def stored(self, table: str) -> tuple[TableSpec, nw.LazyFrame[Any]]:
        """The spec and the rows of a stored table, ``pipeline.table``, at the newest publication.

        Raises:
            ConfigError: the pipeline has no such table.
        """
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

    def _share_store(self, runner: Runner) -> None:
        """Pass the store on to the next run if the backend's tables would be lost with the process."""
        if load_backend(self.backend.partition(":")[0]).offers(Part.DURABILITY):
            return
        store: Any = runner.store
        if self._shared_store is None:
            self._shared_store = store.store
        runner.store = runner.keeper = evolve(store, store=self._shared_store)

    def _redirect_source(self, source: SourceSettings) -> SourceSettings:
        is_changelog = source.records.format in CHANGE_FORMATS  # its messages are fed as they are
        records = source.records if is_changelog else evolve(source.records, format="json")
        limit = source.input.max_bytes_per_epoch if isinstance(source.input, FilesInput) else None
        files = 1 if limit is None else None  # each file is an epoch, if the scenario sets no limit in bytes
        found = FilesInput(str(self._landing(source.name)), files, max_bytes_per_epoch=limit)
        return evolve(source, input=found, records=records)

    def _redirect_bulk(self, pipeline: PipelineSettings) -> PipelineSettings:
        if isinstance(pipeline.service, BulkMergeSettings):  # all files of its folder are one log
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
