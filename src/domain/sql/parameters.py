"""Values put into a query in the place of its named parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ..errors import ConfigError
from .parsing import DIALECT, parsed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date


def with_parameters(sql: str, values: Mapping[str, date]) -> str:
    """A query with dates in the place of parameters such as ``:cut``.

    Raises:
        ConfigError: it cannot be parsed, or has a parameter that there is no value for.

    >>> from datetime import date
    >>> with_parameters("SELECT a FROM t WHERE d < :cut", {"cut": date(2024, 3, 1)})
    "SELECT a FROM t WHERE d < CAST('2024-03-01' AS DATE)"
    """
    tree = parsed(sql)
    for each in list(tree.find_all(exp.Placeholder)):
        if (name := str(each.name)) not in values:
            raise ConfigError(f"{shown(sql)}: no parameter :{name}; there are: :{', :'.join(values)}")
        each.replace(exp.cast(exp.Literal.string(values[name].isoformat()), "date"))
    return tree.sql(dialect=DIALECT)
