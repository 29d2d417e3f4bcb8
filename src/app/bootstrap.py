"""The load of a pipeline's history, before its stream takes over: `headwater bootstrap`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from ..domain.collect import collect_small
from ..domain.errors import ConfigError
from ..domain.loading import History, Loading, loading_table, takes_over
from ..domain.retention import Retention
from ..domain.source import PLAIN_FORMATS
from .runner import Runner, RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..domain.epoch import Offsets, Publication
    from ..domain.service import Service
    from ..domain.topic_group import TopicGroup
    from .runner import EpochReport

TABLE_FORMATS = ("delta", "hudi")
"""Formats of tables that are read whole, as one chunk."""
HISTORY_FORMATS = (*PLAIN_FORMATS, *TABLE_FORMATS)
FILES_PER_CHUNK = 16
_PUT_AWAY = "history put away"


@frozen
class HistoryTable:
    """A plain table with the history of one topic, in the columns of its source's schema.

    Args:
        path: the folder that it is in.
        format: one of `HISTORY_FORMATS`.
    """

    path: str
    format: str = "parquet"

    def __attrs_post_init__(self) -> None:
        if self.format not in HISTORY_FORMATS:
            raise ConfigError(f"a history cannot be {self.format!r}; possible: {', '.join(HISTORY_FORMATS)}")

    def __str__(self) -> str:
        return f"{self.path}:{self.format}"

    @classmethod
    def parse(cls, text: str) -> HistoryTable:
        """``PATH`` or ``PATH:FORMAT``.

        >>> HistoryTable.parse("/dump/info:csv")
        HistoryTable(path='/dump/info', format='csv')
        """
        path, _, last = text.rpartition(":")
        plain = not path or "/" in last  # the colon of an address, or a name's own
        named = cls(text) if plain else cls(path, last)
        return named if "://" in named.path else evolve(named, path=str(Path(named.path).absolute()))


def stream_offsets(wanted: str | Offsets, source: TopicGroup) -> Offsets:
    """Where the stream takes over.

    Args:
        wanted: ``beginning``; ``now``; or offsets by topic, as they are, as JSON, or as the name of a file of it.
        source: the stream.

    Raises:
        ConfigError: it is none of these.
    """
    if wanted == "beginning":
        return {}
    if wanted == "now":
        return source.end()
    offsets = _parsed(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(offsets, dict) or not set(offsets).issubset(source.members):
        raise ConfigError(f"where the stream takes over is told by topic; topics are: {', '.join(source.members)}")
    return offsets


def _parsed(wanted: str) -> Offsets:
    try:
        text = wanted if wanted.lstrip().startswith("{") else Path(wanted).read_text(encoding="utf-8")
        parsed: Offsets = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{wanted!r} does not tell where the stream takes over ({error}); write beginning, now, or offsets by topic"
            " as JSON, or name a file of it"
        ) from error
    return parsed


@frozen(eq=False)
class Bootstrap:
    """The load of one pipeline's history.

    Args:
        runner: of the pipeline.
        gathering: runs over the history instead of the stream.
    """

    runner: Runner
    gathering: Runner

    @classmethod
    def of(cls, runner: Runner, service: Service, history: History, report: Callable[[EpochReport], None]) -> Bootstrap:
        """The load of a history.

        Args:
            runner: of the pipeline.
            service: as the runner's, for the formats of the history.
            history: what is loaded.
            report: told of every chunk.
        """
        gathering = Runner(
            runner.pipeline,
            service=Loading(service),
            source=history,
            store=runner.store,
            keeper=runner.keeper,
            engine=runner.engine,
            clock=runner.clock,
            writer=runner.writer,
            options=RunOptions(compact_every=0, retries=runner.options.retries, retry_wait=runner.options.retry_wait),
            report=lambda chunk: report(evolve(chunk, task=f"history: {chunk.lag}")),
        )
        return cls(runner, gathering)

    def run(self) -> Publication | None:
        """Gather what is left of the history, and load it: the pipeline's first publication; None if stopped before.

        Raises:
            ConfigError: the pipeline has been run already, or the load began with other tables.
            HeadwaterError: it failed; asked for again, it goes on after the last chunk that was finished.
        """
        published = self.runner.ledger.latest
        if published is None:
            self.gathering.run(until_idle=True)
            if self.gathering.stopping:
                return None
            published = self._load()
        elif not self._left_behind():
            raise ConfigError(
                f"pipeline {self.runner.pipeline!r} has been run already, to epoch {published.epoch.number}: a history"
                " is loaded before that. Bring it through the stream, or give the pipeline another name to build anew"
            )
        # As any upkeep, it changes no row; on Hudi this puts what was inserted in bulk into files of one size.
        self.runner.upkeep.compact()
        self._put_away()
        return published

    def stop(self) -> None:
        """Ask the load to end after the chunk under way."""
        self.gathering.stop()

    def _load(self) -> Publication:
        ledger = self.gathering.ledger
        if ledger.latest is None:
            raise ConfigError(f"the history of pipeline {self.runner.pipeline!r} has no files; correct the paths")
        first = evolve(ledger.latest, offsets=takes_over(ledger.latest.offsets))
        service = self.gathering.service
        assert isinstance(service, Loading)
        return self.runner.load(first, service.loads(ledger.snapshot()))

    def _left_behind(self) -> bool:
        """Whether a load was published, and cut off before what had been gathered was put away."""
        name = loading_table(self.runner.service.tables[-1].name)
        if next(self.runner.store.versions(name), None) is None:
            return False
        gathered = self.gathering.ledger.snapshot()
        return bool(collect_small(gathered.read(name).head(1)))

    def _put_away(self) -> None:
        service = self.gathering.service
        assert isinstance(service, Loading)
        self.gathering.report = lambda _report: None
        self.gathering.amend(_PUT_AWAY, lambda _epoch, snapshot: service.emptied(snapshot))
        upkeep = evolve(self.gathering.upkeep, retention=Retention(versions=1))
        upkeep.expire(dry_run=False)
