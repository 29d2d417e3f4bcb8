"""What to publish, from which inputs, and when."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from ..errors import ConfigError
from ..input import ViewOf, check_names
from ..sql import parse_statement
from .tables import MARKERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from ..plain_table import PlainTable
    from ..sql import Statement

WHEN = ("clock", "watermark")


Input: TypeAlias = "ViewOf | PlainTable"


@frozen
class SnapshotSettings:
    """What to publish.

    Args:
        pipeline: the pipeline's name.
        inputs: what the queries read, by the name that they call it.
        tables: the query of each published table, in Spark's dialect. It reads inputs only, not its siblings.
        every: how far apart versions are: by the clock, or in the inputs' event time.
        when: ``clock``: at multiples of `every`, if an input has moved; ``watermark``: when the inputs' watermark
            passes a multiple.
        keys: columns that name a row of a published table, where they are known: then no version is published in which
            they do not.
        longest_query: how long a reader may be at work on one version; None where nothing is promised.
    """

    pipeline: str
    inputs: Mapping[str, Input]
    tables: Mapping[str, str]
    every: timedelta
    when: str = "clock"
    keys: Mapping[str, tuple[str, ...]] = field(factory=dict)
    longest_query: timedelta | None = None

    def __attrs_post_init__(self) -> None:
        if self.when not in WHEN:
            raise ConfigError(f"when = {self.when!r} is not one of {', '.join(WHEN)}")
        if self.every.total_seconds() <= 0:
            raise ConfigError("every must be longer than nothing; write a duration such as '15m'")
        for what, named in (("inputs", self.inputs), ("tables", self.tables)):
            check_names(what, named)
        if MARKERS in {name.lower() for name in self.tables}:
            raise ConfigError(f"a published table cannot be called {MARKERS}: the versions themselves are kept there")
        self._check_keys()
        for sql in self.tables.values():
            checked_query(sql, self.inputs)

    def _check_keys(self) -> None:
        for name, columns in self.keys.items():
            if name not in self.tables:
                raise ConfigError(f"keys names no published table by {name!r}; there are: {', '.join(self.tables)}")
            if not columns or len(set(columns)) < len(columns):
                raise ConfigError(f"the key of {name!r} needs at least one column, each once")

    @property
    def pipelines(self) -> dict[str, str]:
        """The pipelines that are read, by the names of the inputs."""
        return {name: each.pipeline for name, each in self.inputs.items() if isinstance(each, ViewOf)}

    def read_by(self, table: str) -> frozenset[str]:
        """The inputs that a published table's query reads."""
        used = {name.lower() for name in parse_statement(self.tables[table]).tables}
        return frozenset(name for name in self.inputs if name.lower() in used)

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that the rows of a version depend on."""
        text = f"snapshots {sorted(self.tables.items())} {sorted(map(repr, self.inputs.items()))}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def checked_query(sql: str, inputs: Iterable[str]) -> Statement:
    """The query of a published table, over inputs of these names.

    Raises:
        ConfigError: it is no query, reads what is no input, or calls what may answer otherwise next time.
    """
    statement = parse_statement(sql)
    statement.check_tables(inputs)
    statement.check_repeatable()
    return statement
