"""The backends to run a test on, each with its frame engine, query engine and stores."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from headwater.testing.frames import polars_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.domain.ports import FrameEngine, KeptStore, QueryEngine
    from headwater.domain.table.schema import Schema


@frozen(eq=False)
class Backend:
    """A backend under test.

    Args:
        name: its name in the configuration, `delta` for example.
        engine: the engine of its frames.
        queries: runs user-supplied SQL over frames.
        frame: makes a frame from rows, which are tuples of values in the order of a schema's columns.
        open: returns a store over this test's tables: a new object for each call, or on memory always the same one.
    """

    name: str
    engine: FrameEngine
    queries: QueryEngine
    frame: Callable[[Sequence[tuple[Any, ...]], Schema], nw.LazyFrame[Any]] = field(repr=False)
    open: Callable[[], KeptStore] = field(repr=False)


def memory_backend() -> Backend:
    """The memory backend; its store lives as long as the backend."""
    from headwater.adapters.memory.queries import DuckQueries
    from headwater.adapters.memory.store import MemoryStore
    from headwater.adapters.polars.engine import PolarsEngine

    store = MemoryStore()
    return Backend("memory", PolarsEngine(), DuckQueries(), polars_frame, lambda: store)


def delta_backend(session: SparkSession, root: str) -> Backend:
    """The Delta backend, with its tables below the folder `root`."""
    from headwater.adapters.delta.compaction_policy import CompactionPolicy
    from headwater.adapters.delta.store import DeltaStore

    eager = CompactionPolicy(min_files=2, min_share=0)  # so that even the few files of a test are compacted
    return _spark_backend("delta", session, lambda: DeltaStore(session, root, eager))


def local_delta_backend(root: str) -> Backend:
    """The Delta backend on the local engine, with its tables below the folder `root`."""
    from headwater.adapters.delta.compaction_policy import CompactionPolicy
    from headwater.adapters.delta.local.store import LocalDeltaStore
    from headwater.adapters.memory.queries import DuckQueries
    from headwater.adapters.polars.local_engine import LocalEngine

    eager = CompactionPolicy(min_files=2, min_share=0)  # so that even the few files of a test are compacted
    return Backend(
        "delta:local", LocalEngine(), DuckQueries(), polars_frame, lambda: LocalDeltaStore(root, compaction=eager)
    )


def hudi_backend(session: SparkSession, root: str, name: str) -> Backend:
    """A Hudi backend, ``hudi-mor`` or ``hudi-cow``, with its tables below the folder `root`; also as ``NAME:local``."""
    from headwater.adapters.hudi.compact import CompactionPolicy
    from headwater.adapters.hudi.local.store import LocalHudiStore
    from headwater.adapters.hudi.spec import TableType
    from headwater.adapters.hudi.store import HudiStore
    from headwater.adapters.memory.queries import DuckQueries
    from headwater.adapters.polars.local_engine import LocalEngine

    table_type, _, engine = name.partition(":")
    kind = {"hudi-mor": TableType.MERGE_ON_READ, "hudi-cow": TableType.COPY_ON_WRITE}[table_type]
    eager = CompactionPolicy(min_files=1)  # so that even the few files of a test are compacted
    store = LocalHudiStore if engine else HudiStore
    open_store = partial(store, session, root, kind, buckets=1, compaction=eager)
    if engine:
        return Backend(name, LocalEngine(), DuckQueries(), polars_frame, open_store)
    return _spark_backend(name, session, open_store)


def _spark_backend(name: str, session: SparkSession, store: Callable[[], KeptStore]) -> Backend:
    from headwater.adapters.spark.engine import SparkEngine
    from headwater.adapters.spark.queries import SparkQueries
    from headwater.adapters.spark.schema import frame_of

    return Backend(
        name, SparkEngine(session), SparkQueries(session), lambda rows, schema: frame_of(session, schema, rows), store
    )
