"""Reads the views of a deployment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from ...domain.epoch.epoch import Publication
from ...domain.errors import ConfigError
from ...domain.ledger.ledger import Snapshot
from ...domain.service.base import Service
from ...domain.table.view_spec import ViewSpec
from ..read.find_view import find_service, find_view
from ..read.moments import Duration, Moment, Time
from ..wiring.container import Container
from .in_process import InProcess
from .pipeline import Answer, Pipeline


class ViewReader(InProcess):
    """What a program reads of a deployment."""

    services: Mapping[str, Service]
    _container: Container

    @abstractmethod
    def pipeline(self, name: str) -> Pipeline:
        """Return a handle on one pipeline; `ConfigError` is raised if there is none of that name."""

    @abstractmethod
    def _for_programs(self, pipeline: str) -> Pipeline:
        """A handle on the pipeline whose frames are those that programs get."""

    def view(
        self,
        name: str,
        *,
        at: Moment | None = None,
        label: str | datetime | None = None,
        as_of: Time | None = None,
        since: Moment | None = None,
        longest: Duration | None = None,
        read_optimized: bool = False,
    ) -> Any:
        """Return the rows of a view as a DataFrame of Polars or (lazy) of Spark.

        Spark's, if the backend uses Spark and the configuration does not set ``engine = "local"`` or ``"auto"``.

        Args:
            name: ``pipeline.view``; the pipeline alone for its first view. A table of the pipeline
                (``pipeline.dead_letters``) can be read as well.
            at: the version to read: an epoch, a time or a `Label`; the newest publication if not set.
            label: instead of `at`: the newest version with this label, the watermark of its inputs
                (``2024-03-01T09:00:00Z``).
            as_of: only rows up to this event time.
            since: the earlier version, for a view that compares two; the epoch before `at` if not set.
            longest: the longest time that the read may take. The read is refused if its rows could expire before it
                ends.
            read_optimized: read base files only, each as of its last compaction: the cheapest read of merge-on-read
                tables.

        Raises:
            ConfigError: there is no such pipeline or view, or the view has no event time for `as_of`; or
                `read_optimized` is combined with a version, because base files belong to no single one.
            NotSupported: `read_optimized`, and the backend's tables have no log next to their base files.
            VersionNotFound: nothing was published at `at`, or with the label.
            VersionExpired: that version has expired.
            RetentionTooShort: the rows may expire within `longest`: pin the publication first.
        """
        pipeline, spec = self.find(name)
        answer = self._for_programs(pipeline).answer(
            spec, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
        )
        return answer.engine.to_native(answer.frame)

    def answer(
        self,
        name: str,
        *,
        at: Moment | None = None,
        label: str | datetime | None = None,
        as_of: Time | None = None,
        since: Moment | None = None,
        longest: Duration | None = None,
        read_optimized: bool = False,
    ) -> Answer:
        """Return the rows of a view as an engine-independent frame; see `view`."""
        pipeline, spec = self.find(name)
        return self.pipeline(pipeline).answer(
            spec, at=at, label=label, as_of=as_of, since=since, longest=longest, read_optimized=read_optimized
        )

    def diff(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Any:
        """Return the difference of a view between two publications as a DataFrame; see `view` for its kind.

        Args:
            name: ``pipeline.view``, or a table of the pipeline; the pipeline alone for its first view.
            after: the earlier epoch, time or label; the epoch before `until` if not set; -1 is before the first epoch.
            until: the later one; the newest if not set.

        Returns:
            The view's columns and string ``_row_kind``. If rows have a key: ``+I`` is an inserted row, ``-D`` a deleted
            one, ``-U`` the old and ``+U`` the new row of an update. Without a key: ``+I`` and ``-D`` with whole rows,
            and bigint ``_multiplicity``, the number of equal rows.

        Raises:
            ConfigError: there is no such pipeline or view; the view itself compares versions; or `after` is later than
                `until`.
            VersionNotFound: nothing was published at `after` or `until`.
            VersionExpired: one of the two versions has expired.
        """
        pipeline, spec = self.find(name)
        answer = self._for_programs(pipeline).difference(spec, after=after, until=until)
        return answer.engine.to_native(answer.frame)

    def difference(self, name: str, *, after: Moment | None = None, until: Moment | None = None) -> Answer:
        """Return the difference of a view between two publications as an engine-independent frame; see `diff`."""
        pipeline, spec = self.find(name)
        return self.pipeline(pipeline).difference(spec, after=after, until=until)

    def wait_for(self, pipeline: str, watermark: Time, *, timeout: Duration | None = None) -> Publication:
        """See `Pipeline.wait_for`."""
        return self.pipeline(pipeline).wait_for(watermark, timeout=timeout)

    def explaining(self) -> AbstractContextManager[None]:
        """Compute a view's frame inside this context to get Headwater's errors, with a remedy, instead of the engine's.

        Raises:
            VersionExpired: the frame's version expired after the view was read, because no lease held it.
            TableDamaged: a file is truncated or was changed.
            StoreUnavailable: the rows cannot be reached at the moment.
        """
        return self._container.explaining()

    def changes(self, pipeline: str, *, after: Moment, until: Moment | None = None) -> Any:
        """Return the rows of a pipeline's view of changes between two publications as a DataFrame; see `view`.

        Args:
            pipeline: its name.
            after: the earlier epoch, time or `Label`; epoch -1 is before the first.
            until: the later one; the newest if not set.

        Raises:
            ConfigError: the pipeline has no view of changes.
            VersionNotFound: nothing was published at `after` or `until`.
        """
        between = [view.name for view in find_service(self.services, pipeline).views if view.between]
        if not between:
            raise ConfigError(f"pipeline {pipeline!r} has no view of changes")
        return self.view(f"{pipeline}.{between[0]}", at=until, since=after)

    def epoch(self, pipeline: str) -> int:
        """See `Pipeline.epoch`."""
        return self.pipeline(pipeline).epoch

    def loading(self, pipeline: str) -> bool:
        """See `Pipeline.loading`."""
        return self.pipeline(pipeline).loading

    def snapshot(self, pipeline: str, at: Moment | None = None) -> Snapshot:
        """See `Pipeline.snapshot`."""
        return self.pipeline(pipeline).snapshot(at)

    def settled(self, pipeline: str, keys: Any, *, at: Moment | None = None, as_of: Time | None = None) -> Any:
        """See `Pipeline.settled`."""
        return self._for_programs(pipeline).settled(keys, at=at, as_of=as_of)

    def find(self, name: str) -> tuple[str, ViewSpec]:
        """Return the pipeline and the view that a name stands for. A view comes before a table of the same name.

        Raises:
            ConfigError: there is no such pipeline or view; the message lists those that exist.
        """
        return find_view(self.services, name)
