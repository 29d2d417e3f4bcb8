"""The settings of a snapshots pipeline: tables, inputs and schedule."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import ClassVar, TypeAlias

from attrs import field, frozen

from ...errors import ConfigError, prefix_errors
from ...sql import parse_statement
from ...table.query_columns import check_table_columns
from ..base import one_of
from ..input import PlainTable, ViewOf, check_names, parse_query
from .plan import Schedule

WHEN = ("clock", "watermark")
MARKERS = "markers"
"""The table of markers: one row per version."""


Input: TypeAlias = "ViewOf | PlainTable"


_TABLE = re.compile("[A-Za-z][A-Za-z0-9_]{0,199}")
"""The names of published tables: folders are named after them."""


@frozen
class SnapshotSettings:
    """The settings of a snapshots pipeline.

    Args:
        pipeline: the pipeline's name.
        inputs: the inputs of the queries, by the name that the queries use.
        tables: the query of each published table, in Spark's dialect. It reads inputs, never other published tables.
        every: the interval between versions: of the clock, or of the inputs' event time.
        when: ``clock``: at multiples of `every`, if an input has changed; ``watermark``: when the watermark of the
            inputs passes a multiple.
        keys: the key columns of published tables, if any. A version with a null or repeated key is not published.
        longest_query: how long a reader may work on one version, which the retention must allow; None: not checked.
    """

    kind: ClassVar[str] = "snapshots"

    pipeline: str
    inputs: Mapping[str, Input]
    tables: Mapping[str, str]
    every: timedelta
    when: str = field(default="clock", validator=one_of(*WHEN))
    keys: Mapping[str, tuple[str, ...]] = field(factory=dict)
    longest_query: timedelta | None = None

    def __attrs_post_init__(self) -> None:
        if self.every.total_seconds() <= 0:
            raise ConfigError("every must be longer than 0; write a duration such as '15m'")
        for key, names in (("inputs", self.inputs), ("tables", self.tables)):
            check_names(key, names)
        if odd := [name for name in self.tables if not _TABLE.fullmatch(name)]:
            raise ConfigError(
                f"tables: the name {odd[0]!r} must be 1 to 200 letters (a to z), digits and underscores, a letter first"
            )
        if MARKERS in {name.lower() for name in self.tables}:
            raise ConfigError(
                f"tables: a published table cannot be called {MARKERS!r}, the name of the table of versions; rename it"
            )
        self._check_keys()
        for name, sql in self.tables.items():
            self.check_columns(name, parse_query(sql, self.inputs).columns)

    def _check_keys(self) -> None:
        for name, columns in self.keys.items():
            if name not in self.tables:
                raise ConfigError(f"keys: there is no published table {name!r}; there are: {', '.join(self.tables)}")
            if not columns or len(set(columns)) < len(columns):
                raise ConfigError(f"keys: the key of {name!r} needs at least one column, and each column only once")

    def check_columns(self, table: str, columns: Iterable[str]) -> None:
        """Check the names of columns of a published table.

        Raises:
            ConfigError: one is the name of a column of its differences.
        """
        with prefix_errors(f"table {table!r}"):
            check_table_columns(columns, keyed=table in self.keys)

    @property
    def pipelines(self) -> dict[str, str]:
        """The pipelines that are read, by the name of the input."""
        return {name: each.pipeline for name, each in self.inputs.items() if isinstance(each, ViewOf)}

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.every, by_watermark=self.when == "watermark")

    def inputs_of(self, table: str) -> frozenset[str]:
        """Return the names of the inputs that the query of a published table reads."""
        names = {name.lower() for name in parse_statement(self.tables[table]).tables}
        return frozenset(name for name in self.inputs if name.lower() in names)

    @property
    def fingerprint(self) -> str:
        """A text that changes with every setting that the rows of a version depend on."""
        text = f"snapshots {sorted(self.tables.items())} {sorted(map(repr, self.inputs.items()))}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
