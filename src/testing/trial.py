"""A deployment on trial: its sources are fed by hand, and every run is a run of its own, as after a restart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from ..app.api import Headwater
from ..app.backends import Part, load_backend
from ..app.config import FilesInput, load
from ..app.config.document import parse
from ..domain.changelog.settings import CHANGE_FORMATS
from ..domain.errors import ConfigError
from .clock import ManualClock
from .failing_store import FailingStore
from .tables import as_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from datetime import date, timedelta
    from pathlib import Path

    import narwhals as nw

    from ..app.config import Deployment, SourceSettings
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
    """

    folder: Path
    backend: str
    exits: ExitStack = field(repr=False)
    prepare: Callable[[Runner], None] = field(default=lambda _runner: None, repr=False)
    _clock: ManualClock = field(init=False, factory=ManualClock)
    _only_store: KeptStore | None = field(init=False, default=None)
    _reader: Headwater | None = field(init=False, default=None)
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
        if at := places.get((*table, name)):
            lines[at - 1] = f"{name} = {value}"
        elif at := places.get(tuple(table)):
            lines.insert(at, f"{name} = {value}")
        else:
            lines += [f"[{'.'.join(table)}]", f"{name} = {value}"]
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
        read = load(self.file, {**os.environ, **chosen})
        return evolve(read, sources={name: self._fed_by_hand(source) for name, source in read.sources.items()})

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

    def open(self, *, fault: Fault | None = None) -> Headwater:
        """The deployment opened anew, as by another process; with a fault, its stores will fail."""
        headwater = Headwater(self.deployment(), report=lambda _report: None)
        self.exits.callback(headwater.close)
        for runner in headwater.start():
            self._keep(runner)
            runner.clock = self._clock
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

    def wait(self, duration: timedelta) -> None:
        """Let time pass on the clock of all pipelines."""
        self._clock.sleep(duration)

    def compact(self, pipeline: str) -> None:
        """Compact all tables of a pipeline."""
        self.open().upkeep(pipeline).compact()

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

    def _landing(self, source: str) -> Path:
        landing = self.folder / "arrived" / source
        landing.mkdir(parents=True, exist_ok=True)
        return landing
