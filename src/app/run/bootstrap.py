"""Loads the history of a pipeline before its stream takes over: `headwater bootstrap`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from ...domain.epoch.epoch import Offsets, Publication
from ...domain.errors import ConfigError, add_place, name_some
from ...domain.ledger.retention import Retention
from ...domain.ports import Now, StreamSource
from ...domain.service.base import Service
from ...domain.service.history_load import HISTORY, HistoryLoad, HistorySource, loading_table, takes_over
from ...domain.source.record_spec import PLAIN_FORMATS
from ...domain.table.collect import collect_small
from ..document.paths import resolve
from .keep_up import compact
from .options import RunOptions
from .report import EpochReport, Phases
from .runner import Runner

TABLE_FORMATS = ("delta", "hudi")
"""Formats of tables that are read whole, as one chunk."""
HISTORY_FORMATS = (*PLAIN_FORMATS, *TABLE_FORMATS)
FILES_PER_CHUNK = 16
_CLEAN_UP_TASK = "history put away"


@frozen
class HistoryTable:
    """A plain table with the history of one topic, in the columns of its source's schema.

    Args:
        path: its folder.
        format: one of `HISTORY_FORMATS`.
    """

    path: str
    format: str = "parquet"

    def __attrs_post_init__(self) -> None:
        if self.format not in HISTORY_FORMATS:
            raise ConfigError(
                f"format {self.format!r} cannot be read as a history; possible: {', '.join(HISTORY_FORMATS)}"
            )

    def __str__(self) -> str:
        return f"{self.path}:{self.format}"

    @classmethod
    def parse(cls, text: str) -> HistoryTable:
        """Parse ``PATH`` or ``PATH:FORMAT``.

        >>> HistoryTable.parse("/dump/info:csv")
        HistoryTable(path='/dump/info', format='csv')
        """
        path, _, last = text.rpartition(":")
        plain = not path or "/" in last  # the colon belongs to an address or a file name
        named = cls(text) if plain else cls(path, last)
        return evolve(named, path=resolve(named.path, Path.cwd()))


def stream_offsets(wanted: str | Offsets, topics: Mapping[str, StreamSource], now: Now) -> Offsets:
    """Return the offsets at which the stream takes over; those that a user gives must be readable.

    Args:
        wanted: ``beginning``; ``now``; or offsets by topic: a dict, a JSON text, or the path of a JSON file. A topic
            without offsets begins at its oldest record.
        topics: the stream of each topic.
        now: the present.

    Raises:
        ConfigError: the text is not one of these, or a topic has no such offsets.
        SourceUnavailable: a source does not answer.
        SourceChanged: records after these offsets have been deleted; it is better to know before a long load.
    """
    if wanted == "beginning":
        return _ask(topics, lambda stream: stream.beginning())
    if wanted == "now":
        return _ask(topics, lambda stream: stream.end())
    offsets = _parse_offsets(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(offsets, dict) or not set(offsets).issubset(topics):
        raise ConfigError(
            f"the offsets at which the stream takes over are given by topic; topics are: {', '.join(topics)}"
        )
    given = {topic: _start(topic, topics[topic], own, now) for topic, own in offsets.items()}
    others = {topic: stream for topic, stream in topics.items() if topic not in offsets}
    return {**_ask(others, lambda stream: stream.beginning()), **given}


def _start(topic: str, stream: StreamSource, given: Offsets, now: Now) -> Offsets:
    """The offsets at which the stream of one topic takes over, from those that a user gives."""
    with add_place(f"where the stream of topic {topic!r} takes over"):
        if not isinstance(given, dict) or not given:
            raise ConfigError(f"{given!r} are not offsets; leave the topic out to start at its oldest record")
        start = stream.start_at(given)
        stream.plan(start, now)
    return start


def _ask(topics: Mapping[str, StreamSource], start: Callable[[StreamSource], Offsets | None]) -> Offsets:
    """Offsets by topic, without those that are None: such a topic is read from its beginning."""
    found = {}
    for topic, stream in topics.items():
        with add_place(f"topic {topic!r} of the pipeline"):
            if (own := start(stream)) is not None:
                found[topic] = own
    return found


def _parse_offsets(wanted: str) -> Offsets:
    try:
        text = wanted if wanted.lstrip().startswith("{") else Path(wanted).read_text(encoding="utf-8")
        parsed: Offsets = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"stream_from (--stream-from): {wanted!r} is not a place where the stream takes over ({error}); write"
            " beginning, now, or offsets by topic as JSON or as the path of a JSON file"
        ) from error
    return parsed


def _without_files(topic: str, table: HistoryTable) -> ConfigError:
    folders = sorted(each.name for each in Path(table.path).iterdir() if each.is_dir())
    unread = f"; sub-folders are not read ({name_some(folders)}): put all files into one folder" if folders else ""
    return ConfigError(
        f"the history of topic {topic!r} has no files: {table.path} has none of format {table.format}; correct the"
        f" path, or name the format of its files ({topic}=PATH:FORMAT){unread}"
    )


@frozen(eq=False)
class Bootstrap:
    """The load of one pipeline's history.

    Args:
        runner: of the pipeline.
        loader: stages the history, chunk by chunk, instead of reading the stream.
        service: that of the loader.
        history: that of the loader.
    """

    runner: Runner
    loader: Runner
    service: HistoryLoad
    history: HistorySource

    @classmethod
    def of(
        cls, runner: Runner, service: Service, history: HistorySource, report: Callable[[EpochReport], None]
    ) -> Bootstrap:
        """Create the load of a history.

        Args:
            runner: of the pipeline.
            service: the runner's service with the formats of the history.
            history: the source to load.
            report: called with each finished chunk.
        """
        staging = HistoryLoad(service)
        loader = Runner(
            runner.pipeline,
            service=staging,
            source=history,
            store=runner.store,
            keeper=runner.keeper,
            engine=runner.engine,
            clock=runner.clock,
            writer=runner.writer,
            options=RunOptions(
                compact_every=0,
                retries=runner.options.retries,
                backoff=runner.options.backoff,
                dead_letter_limit=runner.options.dead_letter_limit,
                dead_letter_stop=runner.options.dead_letter_stop,
            ),
            report=lambda chunk: report(evolve(chunk, task=f"history: {chunk.lag}")),
            watch=partial(runner.watch, task="history"),
            engine_name=runner.engine_name,
            settings=runner.settings,
        )
        return cls(runner, loader, staging, history)

    def run(self) -> Publication | None:
        """Read the rest of the history and publish it as the pipeline's first publication; None if stopped first.

        Raises:
            ConfigError: the pipeline has been run already, the load began with other tables, or a table has no files.
            HeadwaterError: the load failed; call this again to resume after the last finished chunk.
        """
        published = self.runner.ledger.latest
        if published is None:
            self._check_tables()
            self.loader.run(until_idle=True)
            if self.loader.stopping:
                return None
            published = self._load()
        elif not self._needs_clean_up():
            raise ConfigError(
                f"pipeline {self.runner.pipeline!r} has been run already, to epoch {published.epoch.number}: a history"
                " must be loaded before that. Send it through the stream, or build a new pipeline under another name"
            )
        # Compaction changes no row; on Hudi it rewrites the bulk inserts to files of the target size.
        compact(self.runner.upkeep, Phases())
        self._clean_up()
        return published

    def _check_tables(self) -> None:
        """Check, before the first chunk, that each table has something to read; else its topic would be left out."""
        if self.loader.ledger.latest is None and (empty := self.history.empty_topics(Now(self.runner.clock.now()))):
            raise _without_files(empty[0], HistoryTable.parse(self.history.tables[empty[0]]))

    def _load(self) -> Publication:
        ledger = self.loader.ledger
        if ledger.latest is None:
            raise ConfigError(f"no history of pipeline {self.runner.pipeline!r} is named; name a table of a topic")
        read = ledger.latest.offsets
        first = evolve(ledger.latest, offsets=takes_over(read), beginning={HISTORY: read[HISTORY]})
        return self.runner.load(first, self.service.loads(ledger.snapshot()))

    def _needs_clean_up(self) -> bool:
        """Whether a published load was interrupted before its staged rows were removed."""
        name = loading_table(self.runner.service.tables[-1].name)
        if next(self.runner.store.versions(name), None) is None:
            return False
        staged = self.loader.ledger.snapshot()
        return bool(collect_small(staged.read(name).head(1)))

    def _clean_up(self) -> None:
        self.loader.report = lambda _report: None
        self.loader.amend(_CLEAN_UP_TASK, lambda _epoch, snapshot: self.service.emptied(snapshot))
        upkeep = evolve(self.loader.upkeep, retention=Retention(versions=1))
        upkeep.expire(dry_run=False)
