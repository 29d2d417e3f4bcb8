"""One table of a configuration file: its values, and their places for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from attrs import field, fields_dict, frozen

from ...domain.errors import ConfigError
from ...domain.table.schema import Schema
from .document import Document
from .lines import KeyPath
from .paths import resolve
from .value_types import TEXT, Key, Kind, choice

_T = TypeVar("_T")


@frozen(eq=False)
class Section:
    """The values of a table, read by their kinds. A `key` names one of its keys, with those of tables inside it.

    Args:
        document: the configuration file.
        path: of the table.
        keys: that it may have.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong kind.
    """

    document: Document
    path: KeyPath
    keys: Mapping[str, Key]
    values: Mapping[str, Any] = field(init=False)

    @values.default
    def _read(self) -> Mapping[str, Any]:
        return self.document.section(self.path, self.keys)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def name(self) -> str:
        """The last part of its path, such as the name of a pipeline."""
        return str(self.path[-1])

    def fields(self, settings: type) -> dict[str, Any]:
        """The values whose keys are attributes of an attrs class."""
        return {name: self.values[name] for name in fields_dict(settings) if name in self.values}

    def has(self, *key: str) -> bool:
        """Whether the file or the environment sets a key."""
        return key[-1] in self.document.table((*self.path, *key[:-1]))

    def inner(self, keys: Mapping[str, Key], *key: str) -> Section:
        """Read a table inside this one."""
        return Section(self.document, (*self.path, *key), keys)

    def names(self, key: str) -> tuple[str, ...]:
        """The names in a table inside this one."""
        return tuple(self.document.table((*self.path, key)))

    def is_table(self, *key: str) -> bool:
        """Whether the value of a key is a table."""
        return isinstance(self.document.table((*self.path, *key[:-1])).get(key[-1]), dict)

    def read(self, kind: Kind, *key: str) -> Any:
        """Read a required value inside this table."""
        return self.document.value((*self.path, *key), Key(kind, required=True))

    def text(self, *key: str) -> str:
        """Read a required text inside this table."""
        return str(self.read(TEXT, *key))

    def pick(self, key: str, named: Mapping[str, _T]) -> _T:
        """Return what the value of a key names.

        Raises:
            ConfigError: it names nothing; the message lists the names.
        """
        if self.values[key] not in named:
            self.read(choice(*named), key)
        return named[self.values[key]]

    def resolve(self, path: str) -> str:
        """Make a path absolute; relative paths start from the folder of the file."""
        return resolve(path, self.document.file.parent)

    def resolve_key(self, key: str) -> str:
        """Make the path at a key absolute; errors name the place of the key."""
        return self.build(lambda: self.resolve(self[key]), key)

    def error(self, message: str, *key: str) -> ConfigError:
        """Return an error at a key, or at the table."""
        return self.document.error((*self.path, *key), message)

    def build(self, build: Callable[[], _T], *key: str) -> _T:
        """Call `build` and return its result; errors name the place of a key, or of the table."""
        return self.document.build((*self.path, *key), build)

    def check_columns(self, key: str, schema: Schema, names: Iterable[str | None] | None = None) -> None:
        """Refuse a name that is not a column.

        Args:
            key: the key of the names.
            schema: the columns.
            names: the names, if they are not the value of the key.

        Raises:
            ConfigError: names the place, and lists the columns.
        """
        value = self.values[key] if names is None else names
        found = (value,) if value is None or isinstance(value, str) else value
        self.document.check_columns((*self.path, key), schema.names, *found)
