"""What a pipeline that reads others is given of each of its inputs."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import narwhals as nw

    from .service import ReadAt, Service, ViewSpec


_NAME = re.compile(r"[A-Za-z]\w*")


@frozen
class ViewOf:
    """A view of another pipeline; its first one where none is named."""

    pipeline: str
    view: str | None = None


def check_names(what: str, names: Iterable[str]) -> None:
    """Refuse names that SQL cannot call its tables by, or not tell apart.

    Args:
        what: they name, for messages.
        names: one or more.

    Raises:
        ConfigError: with the first that is wrong.
    """
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{what}: {name!r} must be letters, digits and underscores, a letter first")
        if name.lower() in seen:
            raise ConfigError(f"{what}: {name!r} stands twice, or differs only in case")
        seen.add(name.lower())
    if not seen:
        raise ConfigError(f"{what} needs at least one")


class Input(Protocol):
    """The rows of one input as an epoch reads them, the same ones each time."""

    @abstractmethod
    def rows(self) -> nw.LazyFrame[Any]:
        """All rows."""


class KeyedInput(Input, Protocol):
    """An input whose rows have a key, and which can tell what has changed since the epoch before."""

    @abstractmethod
    def lookup(self, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows that equal one of `keys` in all of its columns, which are some of the key or all."""

    @abstractmethod
    def changes(self) -> nw.LazyFrame[Any] | None:
        """Net changes since the epoch before, in its columns and ``_row_kind``; None where that cannot be told."""


@frozen(eq=False)
class PlainInput(Input):
    """Rows of a plain table."""

    frame: nw.LazyFrame[Any]

    def rows(self) -> nw.LazyFrame[Any]:
        """See `Input.rows`."""
        return self.frame


@frozen(eq=False)
class ViewInput(KeyedInput):
    """A view of another pipeline.

    Args:
        service: of that pipeline.
        view: which of its views.
        now: where this epoch reads it.
        before: where the epoch before did; None where there was none, or it can be read no more.
    """

    service: Service
    view: ViewSpec
    now: ReadAt
    before: ReadAt | None = None

    def rows(self) -> nw.LazyFrame[Any]:
        """See `Input.rows`."""
        return self.service.view(self.view.name, self.now.snapshot, as_of=self.now.as_of)

    def lookup(self, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """See `KeyedInput.lookup`."""
        return self.service.lookup(self.view.name, self.now, keys)

    def changes(self) -> nw.LazyFrame[Any] | None:
        """See `KeyedInput.changes`."""
        if self.before is None:
            return None
        return self.service.changes_between(self.view.name, self.before, self.now)
