"""The composition root: builds the parts of a deployment and connects them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cached_property
from random import random
from typing import Any, TypeAlias
from uuid import uuid4

from ...domain.errors import ConfigError, NotSupported
from ...domain.ports import BaseReading, Clock, FrameEngine, Source
from ...domain.service.base import Service
from ..config import Deployment, KafkaOutput, PipelineSettings
from ..read.keyed_views import feed_of
from ..registry.backends import chosen_backend
from ..registry.sources import spark_packages
from ..run.auto import AutoRunner, TriedQueries, deferred
from ..run.backoff import Backoff
from ..run.bootstrap import HistoryTable
from ..run.options import RunOptions
from ..run.report import EpochReport, EpochWatch, unwatched
from ..run.runner import Runner
from ..run.sink_publisher import SinkPublisher
from ..run.turn import Turn
from ..services.kind import SourceParts, kind_of
from .blueprints import blueprints
from .checks import find_refusals
from .digest import digest_settings
from .engine_parts import EngineParts
from .memory import local_bytes
from .sinks import open_sink
from .table_formats import check_format

Others: TypeAlias = Callable[[str], Runner]
"""Returns the runner of another pipeline by its name."""


class Container:
    """The parts of a deployment. An engine starts when it is first requested.

    If the deployment chooses an engine for each epoch, there are two complete sets of parts over the same tables. The
    first one does whatever only reads; the second one is started by the first epoch that needs it.
    """

    def __init__(self, deployment: Deployment, clock: Clock) -> None:
        self.deployment = deployment
        self.turn = Turn()
        self._exits = ExitStack()
        self._clock = clock
        self._backend = backend = chosen_backend(deployment.backend)
        self._parts, *more = (EngineParts(deployment, each, self._exits) for each in backend.engines or (backend,))
        self._large = more[0] if more else None

    def extend(self, deployment: Deployment) -> None:
        """Go on with a deployment that has more sources and pipelines.

        Raises:
            ConfigError: a new source needs packages that a running Spark session does not have.
        """
        parts = [self._parts, *([self._large] if self._large else [])]
        if any(each.started and each.backend.spark_settings() for each in parts):
            _check_packages(self.deployment, deployment)
        for each in parts:
            each.deployment = deployment
        self.deployment = deployment
        self.__dict__.pop("_refusals", None)

    @property
    def chooses(self) -> bool:
        """Whether an engine is chosen for each epoch."""
        return self._large is not None

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """See `FrameEngine.explaining`, for each engine that has started."""
        with self._parts.engine.explaining():
            try:
                yield
            except Exception:
                if self._large is None or not self._large.started:
                    raise
                with self._large.engine.explaining():
                    raise

    @property
    def base(self) -> BaseReading:
        return self._parts.base

    @property
    def base_for_programs(self) -> BaseReading:
        """As `base`, with the frames that programs get; see `Runner.for_programs`."""
        parts = self._large if self._large and self._backend.large_frames else self._parts
        return parts.base

    def runner(
        self,
        name: str,
        report: Callable[[EpochReport], None],
        others: Others,
        watch: EpochWatch = unwatched,
        generation: int | None = None,
    ) -> Runner:
        """Create the runner of a pipeline.

        Args:
            name: of the pipeline.
            report: called with each published epoch.
            others: returns the runner of another pipeline by its name.
            watch: sees its epochs.
            generation: of the tables that it builds; nothing of them is published to a sink. None for the current one.
        """
        check_format(self.deployment, name)
        writer = uuid4().hex
        if (large := self._large) is None:
            found = self._of_runner(name, self._parts, others, generation=generation, writer=writer)
            return Runner(**found, report=report, watch=watch)
        return AutoRunner(
            **self._of_runner(name, self._parts, others, self._parts.backend.engine_name, generation, writer=writer),
            report=report,
            watch=watch,
            make_large=lambda small: self._make_large(name, large, small, others, generation),
            limit=local_bytes(self.deployment.backend.local_mb),
            find_refusal=lambda: self._refusals.get(name),
            large_frames=self._backend.large_frames,
        )

    def renew_stores(self) -> None:
        """From now on, create runners that look up the generations of the tables again, after a rebuild."""
        for parts in filter(None, (self._parts, self._large)):
            parts.renew_store()

    def _make_large(
        self, name: str, parts: EngineParts, small: AutoRunner, others: Others, generation: int | None
    ) -> Runner:
        """Create the other runner of a pipeline; its engine starts here, if it has not started yet."""
        engine_name = parts.backend.engine_name
        with _keep_interrupt():
            found = self._of_runner(
                name, parts, lambda other: others(other).large, engine_name, generation, writer=small.writer
            )
        shared = {
            "clock": small.clock,
            "options": small.options,
            "watch": small.watch,
            "first_epoch": small.first_epoch,
        }
        run = {"losses": small.losses, "silence": small.silence, "stop_asked": small.stop_asked}
        return Runner(**{**found, **shared, **run}, report=small.report)

    @cached_property
    def _refusals(self) -> Mapping[str, str]:
        return find_refusals(self.deployment, blueprints(self.deployment))

    def _of_runner(
        self,
        name: str,
        parts: EngineParts,
        others: Others,
        engine_name: str | None = None,
        generation: int | None = None,
        *,
        writer: str,
    ) -> dict[str, Any]:
        """The arguments of a runner on one engine."""
        pipeline = self.deployment.pipelines[name]
        store = parts.store if generation is None else parts.store.for_building(name, generation)
        output = pipeline.publish if generation is None else None
        kind, given = kind_of(pipeline), self._source_parts(parts, others, generation)
        service = kind.build(pipeline.service, given)
        return {
            "pipeline": name,
            "service": service,
            "source": self._open(pipeline, given, lambda: others(name)),
            "store": store,
            "keeper": store,
            "engine": parts.engine,
            "clock": self._clock,
            "writer": writer,
            "options": _options(self.deployment, pipeline),
            # A service remembers what it has read: the publisher, which may run beside the epochs, has its own.
            "publisher": _sink_publisher(pipeline, output, kind.build(pipeline.service, given), parts.engine, writer)
            if output
            else None,
            "engine_name": engine_name,
            "settings": digest_settings(self.deployment, name),
            "turn": self.turn,
        }

    def _open(self, pipeline: PipelineSettings, parts: SourceParts, own: Callable[[], Runner]) -> Source:
        """Open what a pipeline reads; on the other engine, when it is first used, if only that one can."""
        try:
            return kind_of(pipeline).open(pipeline.service, pipeline, parts)
        except NotSupported:
            if self._large is None or parts.sources is self._large.sources:
                raise
            return deferred(lambda: own().large.source)

    def history(
        self, name: str, tables: Mapping[str, HistoryTable], files: int, others: Others
    ) -> tuple[Service, Source]:
        """Open the history of a pipeline, and create the service that reads it; see `ServiceKind.history`."""
        pipeline = self.deployment.pipelines[name]
        parts = self._source_parts(self._large or self._parts, lambda other: others(other).large)
        return kind_of(pipeline).history(pipeline.service, pipeline, tables, files, parts)

    def _source_parts(self, parts: EngineParts, others: Others, generation: int | None = None) -> SourceParts:
        small = self._large is not None and parts is self._parts
        return SourceParts(
            parts.engine,
            lambda: TriedQueries(parts.queries) if small else parts.queries,
            lambda each: each.of(others(each.pipeline).service),
            parts.sources,
            self.deployment.sources,
            others,
            generation,
        )

    def close(self) -> None:
        """Stop the engines that were started here."""
        self._exits.close()


def _check_packages(former: Deployment, deployment: Deployment) -> None:
    """Refuse sources whose Spark packages a session lacks that was started without them."""
    there = set(spark_packages(source.input.kind for source in former.sources.values()))
    for source in deployment.sources.values():
        if not there.issuperset(spark_packages([source.input.kind])):
            raise ConfigError(
                f"sources.{source.name}: Spark runs already, without the packages of kind {source.input.kind!r}:"
                " declare all sources before the first run"
            )


@contextmanager
def _keep_interrupt() -> Iterator[None]:
    """Keep the handler of the interrupt signal, which Spark takes over when it starts, perhaps during a run."""
    former = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if former is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, former)


def _sink_publisher(
    pipeline: PipelineSettings, output: KafkaOutput, service: Service, engine: FrameEngine, writer: str
) -> SinkPublisher:
    feed = feed_of(pipeline.name, output, service)
    table = f"{pipeline.name}.{feed.view.name}" if feed.view.name in pipeline.materialize else None
    return SinkPublisher(service, feed.view.name, table, open_sink(output, feed, engine), engine, writer)


def _options(deployment: Deployment, pipeline: PipelineSettings) -> RunOptions:
    # Each topic of a wide table has its own delay, which the service knows; the slowest topic holds the others back.
    alone = deployment.sources[pipeline.source] if isinstance(pipeline.source, str) else None
    return RunOptions(
        materialize=pipeline.materialize,
        watermark_delay=alone.watermark_delay if alone else timedelta(),
        idle_after=alone.idle_after if alone else None,
        compact_every=deployment.backend.compact_every,
        retention=pipeline.retain or deployment.backend.retain,
        expire_every=_expire_every(deployment, pipeline),
        poll=deployment.run.poll,
        retries=deployment.run.retries,
        backoff=Backoff(deployment.run.retry_wait, deployment.run.retry_max_wait, random),
        place=pipeline.place,
        source_place=f"{alone.place} (pipeline {pipeline.name})" if alone and alone.place else "",
        dead_letter_limit=deployment.run.dead_letter_limit,
        dead_letter_stop=deployment.run.dead_letter_stop,
    )


def _expire_every(deployment: Deployment, pipeline: PipelineSettings) -> int:
    """The pipeline's own setting, else the backend's; 1 if the pipeline's own retention is applied after each epoch."""
    if pipeline.expire_every is not None:
        return pipeline.expire_every
    every = deployment.backend.expire_every
    return 1 if every == 0 and pipeline.retain and kind_of(pipeline).expires_each_epoch else every
