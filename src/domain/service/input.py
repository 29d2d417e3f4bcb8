"""The inputs of a pipeline that reads other pipelines, or tables that other programs write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import narwhals as nw
from attrs import frozen

from ..epoch.batch import Input, KeyedInput
from ..errors import ConfigError
from ..sql import Statement, parse_statement
from ..table.view_spec import ViewSpec
from .base import ReadAt, Service, Views

_NAME = re.compile(r"[A-Za-z]\w*")


@frozen
class ViewOf:
    """The name of a view of another pipeline; if `view` is None, its default view."""

    pipeline: str
    view: str | None = None

    def __str__(self) -> str:
        return f"{self.pipeline}{f'.{self.view}' if self.view else ''}"

    def of(self, service: Views) -> ViewSpec:
        """Return the view, given the service of the pipeline."""
        return service.known(self.view) if self.view else service.views[0]


@frozen
class PlainTable:
    """A table that other programs write: its path and its format; see `QueryEngine.scan`."""

    path: str
    format: str

    def __str__(self) -> str:
        return f"{self.format} at {self.path}"


def agree(name: str, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two records by input say the same of an input; what one of them does not record is taken to be the same.

    >>> agree("a", {"a": "1"}, {"a": "2"}), agree("a", {"a": "1"}, {})
    (False, True)
    """
    return name not in one or name not in other or one[name] == other[name]


def check_names(what: str, names: Iterable[str]) -> None:
    """Check that names are valid and distinct table names in SQL.

    Args:
        what: what they name, for messages.
        names: one or more names.

    Raises:
        ConfigError: there is no name, or a name is invalid or not unique; the message has the first such name.
    """
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{what}: {name!r} must be letters, digits and underscores, a letter first")
        if name.lower() in seen:
            raise ConfigError(f"{what}: {name!r} occurs twice, or differs only in case")
        seen.add(name.lower())
    if not seen:
        raise ConfigError(f"{what} needs at least one")


def parse_query(sql: str, inputs: Iterable[str]) -> Statement:
    """Parse a query over inputs, and check it.

    Raises:
        ConfigError: it is not a query, reads a table that is not an input, or calls a function whose result can differ
            the next time (``now()``, ``rand()``).
    """
    statement = parse_statement(sql)
    statement.check_tables(inputs)
    statement.check_repeatable()
    return statement


@frozen(eq=False)
class PlainInput(Input):
    """Rows of a plain table."""

    frame: nw.LazyFrame[Any]

    def rows(self) -> nw.LazyFrame[Any]:
        return self.frame


@frozen(eq=False)
class ViewInput(KeyedInput):
    """A view of another pipeline.

    Args:
        service: the service of that pipeline.
        view: the view.
        now: the point at which this epoch reads it.
        before: the point at which the previous epoch read it; None if there is none, or if it has expired.
    """

    service: Service
    view: ViewSpec
    now: ReadAt
    before: ReadAt | None = None

    def rows(self) -> nw.LazyFrame[Any]:
        return self.service.view(self.view.name, self.now)

    def lookup(self, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self.service.lookup(self.view.name, self.now, keys)

    def changes(self) -> nw.LazyFrame[Any] | None:
        if self.before is None:
            return None
        return self.service.changes_between(self.view.name, self.before, self.now)
