"""A deployment that a program declares piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from ...domain.errors import ConfigError
from ..config import Deployment
from ..config.load import load_tables
from ..document.plain import plain


@frozen(eq=False)
class Draft:
    """The tables of a configuration, as far as a program has declared them.

    Args:
        tables: the declared tables, by name.
        environ: environment variables that override them; those of the process if None.
    """

    tables: Mapping[str, Any]
    environ: Mapping[str, str] | None = None

    def deployment(self, *, whole: bool = False) -> Deployment:
        """The deployment, checked.

        Args:
            whole: whether the program has declared all of it.

        Raises:
            ConfigError: names the key of the first mistake, and what is allowed.
        """
        return load_tables(self.tables, self.environ, whole=whole)

    def with_table(self, section: str, name: str, values: Mapping[str, Any]) -> Draft:
        """This draft with one more source or pipeline; the same one may be declared again.

        Args:
            section: "sources" or "pipelines".
            name: of the source or pipeline.
            values: its keys.

        Raises:
            ConfigError: another one has this name.
        """
        declared, known = plain(values), self.tables.get(section, {})
        if known.get(name, declared) != declared:
            raise ConfigError(
                f"{section}.{name} is declared already, with other settings: give another name, or declare it in a new"
                " Headwater"
            )
        return Draft({**self.tables, section: {**known, name: declared}}, self.environ)
