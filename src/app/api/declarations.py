"""Declares sources and pipelines in a program, under the names and with the keys of a configuration file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import Literal, Unpack

    from ..read.moments import Duration
    from .draft import Draft
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
        own = {
            "path": path,
            "format": format,
            "layout": layout,
            "delimiter": delimiter,
            "quote": quote,
            "escape": escape,
            "header": header,
            "null_value": null_value,
            "comment": comment,
            "files_per_epoch": files_per_epoch,
            "max_rows_per_epoch": max_rows_per_epoch,
            "max_bytes_per_epoch": max_bytes_per_epoch,
        }
        return self.source(name, "files", schema=schema, **own, **more)

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
        **more: Unpack[RecordOptions],
    ) -> str:
        """Declare a source: topics of a broker. Write secrets as ``${NAME}`` (docs/configuration.md)."""
        own = {
            "servers": servers,
            "topics": topics,
            "format": format,
            "max_rows_per_epoch": max_rows_per_epoch,
            "max_bytes_per_epoch": max_bytes_per_epoch,
            "options": options,
            "registry": registry,
            "registry_auth": registry_auth,
            "registry_auth_file": registry_auth_file,
        }
        return self.source(name, "kafka", schema=schema, **own, **more)

    def stream(self, name: str, *, schema: Schema, **more: Unpack[SourceOptions]) -> str:
        """Declare a source: frames that this program hands over by `push` or `foreach_batch` (docs/programs.md)."""
        return self.source(name, "stream", schema=schema, **more)

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
        own = {
            "source": source,
            "group": group,
            "id": id,
            "order_by": order_by,
            "method": method,
            "tie_break": tie_break,
            "segment": segment,
            "offset": offset,
            "time_zone": time_zone,
            "nulls": nulls,
            "top": top,
            "repeats": repeats,
        }
        return self.add(name, "ranking", **own, **more)

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
        own = {
            "source": source,
            "measures": measures,
            "updated_at": updated_at,
            "group": group,
            "deleted_at": deleted_at,
            "time_zone": time_zone,
            "identity": identity,
            "repeat_window": repeat_window,
            "log_reset": log_reset,
            "roll_after": roll_after,
            "past": past,
        }
        return self.add(name, "retraction", **own, **more)

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
        own = {
            "source": source,
            "step": step,
            "measures": measures,
            "size": size,
            "offset": offset,
            "time_zone": time_zone,
            "dimensions": dimensions,
            "late": late,
            "ticks": ticks,
        }
        return self.add(name, "cumulate", **own, **more)

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
        return self.add(name, "wide_table", key=key, topics=topics, tombstones=tombstones, **more)

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
        own = {"when": when, "keys": keys, "longest_query": longest_query}
        return self.add(name, "snapshots", inputs=inputs, tables=tables, every=every, **own, **more)

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
        own = {
            "changelog": changelog,
            "bulk": bulk,
            "key": key,
            "columns": columns,
            "delay": delay,
            "position": position,
            "mode": mode,
            "history": history,
        }
        return self.add(name, "bulk_merge", **own, **more)

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
        own = {"changes": changes, "schema": _text(schema), "align": align, "lag": lag}
        return self.add(name, "materialized_view", inputs=inputs, key=key, sql=sql, **own, **more)

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
        draft = self._draft.with_table(section, name, values)
        self._take(draft)
        self._draft = draft
        return name

    @abstractmethod
    def _take(self, draft: Draft) -> None:
        """Check a draft, and go on with its deployment."""


def _text(schema: Schema | None) -> str | None:
    if isinstance(schema, Mapping):
        return ", ".join(f"`{name}` {kind}" for name, kind in schema.items())
    return schema
