"""Declares sources and pipelines in a program, under the names and with the keys of a configuration file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ...domain.errors import ConfigError
from ..document.plain import check_type
from ..read.moments import Duration
from .draft import Draft

if TYPE_CHECKING:
    from .options import (
        BulkOptions,
        Measures,
        PastOptions,
        PipelineOptions,
        PlainTable,
        RecordOptions,
        Schema,
        SourceOptions,
        StreamOptions,
        TopicOptions,
    )

    Path = str | PathLike[str]


class Declarations:
    """Declares what a configuration file would hold. A setting that is None has the default of its key.

    Each method checks at once, and returns the name that it was given. The same declaration may be repeated.

    Raises:
        ConfigError: names the key of the first mistake, and what is allowed; or the deployment was read from a file.
    """

    _draft: Draft | None

    def files(
        self,
        name: str,
        path: Path,
        *,
        schema: Schema,
        format: Literal["json", "csv", "parquet", "maxwell-json", "debezium-json", "canal-json"] | None = None,  # noqa: A002 - the key
        layout: Literal["lines", "array"] | None = None,
        delimiter: str | None = None,
        quote: str | None = None,
        escape: str | None = None,
        header: bool | None = None,
        null_value: str | Sequence[str] | None = None,
        comment: str | None = None,
        files_per_epoch: int | None = None,
        max_rows_per_epoch: int | None = None,
        max_bytes_per_epoch: int | None = None,
        **more: Unpack[RecordOptions],
    ) -> str:
        """Declare a source: the files of a folder, in the order of their names (docs/configuration.md)."""
        return self.source(name, "files", **_given(locals()))

    def kafka(
        self,
        name: str,
        *,
        servers: str,
        topics: Sequence[str],
        schema: Schema,
        format: Literal[  # noqa: A002 - the key
            "json",
            "maxwell-json",
            "debezium-json",
            "canal-json",
            "avro",
            "debezium-avro",
            "protobuf",
            "debezium-protobuf",
        ]
        | None = None,
        max_rows_per_epoch: int | None = None,
        max_bytes_per_epoch: int | None = None,
        options: Mapping[str, object] | None = None,
        registry: str | None = None,
        registry_auth: str | None = None,
        registry_auth_file: Path | None = None,
        topic_ids: Literal["check", "ignore"] | None = None,
        compaction: Literal["check", "ignore"] | None = None,
        **more: Unpack[RecordOptions],
    ) -> str:
        """Declare a source: topics of a broker. Write secrets as ``${NAME}`` (docs/configuration.md)."""
        return self.source(name, "kafka", **_given(locals()))

    def stream(self, name: str, *, schema: Schema, **more: Unpack[SourceOptions]) -> str:
        """Declare a source: frames that this program hands over by `push` or `foreach_batch` (docs/programs.md)."""
        return self.source(name, "stream", **_given(locals()))

    def ranking(
        self,
        name: str,
        *,
        source: str,
        group: Sequence[str],
        id: Sequence[str],  # noqa: A002 - the key
        order_by: str,
        method: Literal["dense_rank", "rank", "row_number"] | None = None,
        tie_break: Sequence[str] | None = None,
        segment: Duration | float | None = None,
        offset: Duration | float | None = None,
        time_zone: str | None = None,
        nulls: Literal["first", "last"] | None = None,
        top: int | None = None,
        repeats: Literal["anywhere", "same-segment"] | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: the rank of each row in its group, over all history (docs/configuration.md)."""
        return self.add(name, "ranking", **_given(locals()))

    def retraction(
        self,
        name: str,
        *,
        source: str,
        measures: Measures,
        updated_at: str,
        group: Sequence[str] | None = None,
        deleted_at: str | None = None,
        time_zone: str | None = None,
        identity: Literal["auto", "none"] | Sequence[str] | None = None,
        repeat_window: Duration | None = None,
        log_reset: Literal["stop", "accept"] | None = None,
        roll_after: Duration | None = None,
        past: PastOptions | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: measures of groups, from the changes of a table (docs/retraction.md)."""
        return self.add(name, "retraction", **_given(locals()))

    def cumulate(
        self,
        name: str,
        *,
        source: str,
        step: Duration,
        measures: Measures,
        size: Duration | None = None,
        offset: Duration | None = None,
        time_zone: str | None = None,
        dimensions: Sequence[Sequence[str]] | None = None,
        late: Literal["drop", "revise"] | None = None,
        ticks: Literal["sparse", "dense"] | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: measures of a window so far, a tick a step (docs/cumulate.md)."""
        return self.add(name, "cumulate", **_given(locals()))

    def wide_table(
        self,
        name: str,
        *,
        key: Sequence[str],
        topics: Mapping[str, TopicOptions],
        tombstones: Duration | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: one row a key, with the newest values of each topic (docs/wide-tables.md)."""
        return self.add(name, "wide_table", **_given(locals()))

    def snapshots(
        self,
        name: str,
        *,
        inputs: Mapping[str, str | PlainTable],
        tables: Mapping[str, str],
        every: Duration,
        when: Literal["clock", "watermark"] | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        longest_query: Duration | None = None,
        **more: Unpack[PipelineOptions],
    ) -> str:
        """Declare a pipeline: versions of SQL results that long queries finish on (docs/snapshots.md)."""
        return self.add(name, "snapshots", **_given(locals()))

    def bulk_merge(
        self,
        name: str,
        *,
        changelog: str,
        bulk: BulkOptions,
        key: Sequence[str],
        columns: Sequence[str] | None = None,
        delay: Duration | None = None,
        position: str | Sequence[str] | None = None,
        mode: Literal["exact", "upsert"] | None = None,
        history: Duration | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: a table that is loaded in bulk while its changes go on (docs/bulk-merge.md)."""
        return self.add(name, "bulk_merge", **_given(locals()))

    def materialized_view(
        self,
        name: str,
        *,
        inputs: Mapping[str, str],
        key: Sequence[str],
        sql: str,
        changes: Mapping[str, str] | None = None,
        schema: Schema | None = None,
        align: Literal["before", "at", "newest"] | None = None,
        lag: Duration | None = None,
        **more: Unpack[StreamOptions],
    ) -> str:
        """Declare a pipeline: the result of SQL over other pipelines, kept fresh (docs/materialized-views.md)."""
        schema = _text(schema)
        return self.add(name, "materialized_view", **_given(locals()))

    def source(self, name: str, kind: str, *, schema: Schema, **settings: Any) -> str:
        """Declare a source of any kind, one of another package for example.

        Args:
            name: of the source.
            kind: its kind.
            schema: its columns.
            settings: its other keys.
        """
        return self._declare("sources", name, {"kind": kind, "schema": _text(schema), **settings})

    def add(self, name: str, service: str, **settings: Any) -> str:
        """Declare a pipeline of any service, one of another package for example.

        Args:
            name: of the pipeline.
            service: the name of its service.
            settings: its other keys.
        """
        return self._declare("pipelines", name, {"service": service, **settings})

    def _declare(self, section: str, name: str, values: Mapping[str, Any]) -> str:
        if self._draft is None:
            raise ConfigError(f"{section}.{name}: this deployment was read from a file, so declare it there")
        draft = self._draft.with_table(section, check_type(name, str, f"the text of a name in {section}"), values)
        self._take(draft)
        self._draft = draft
        return name

    @abstractmethod
    def _take(self, draft: Draft) -> None:
        """Check a draft, and go on with its deployment."""


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among the parameters of a declaration; call it before there are other variables."""
    settings = {name: value for name, value in parameters.items() if name not in {"self", "name", "more"}}
    return {**settings, **parameters["more"]}


def _text(schema: Schema | None) -> str | None:
    if isinstance(schema, Mapping):
        return ", ".join(f"`{name}` {kind}" for name, kind in schema.items())
    return schema
