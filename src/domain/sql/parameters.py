"""Named parameters in a query."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from sqlglot import exp

from ..errors import ConfigError
from .parsing import DIALECT, parse, quote


def with_parameters(sql: str, values: Mapping[str, date]) -> str:
    """A query with its parameters, such as ``:cut``, replaced by dates.

    Raises:
        ConfigError: it cannot be parsed, or has a parameter without a value.

    >>> from datetime import date
    >>> with_parameters("SELECT a FROM t WHERE d < :cut", {"cut": date(2024, 3, 1)})
    "SELECT a FROM t WHERE d < CAST('2024-03-01' AS DATE)"
    """
    tree = parse(sql)
    for each in list(tree.find_all(exp.Placeholder)):
        if (name := str(each.name)) not in values:
            raise ConfigError(f"{quote(sql)}: no parameter :{name}; there are: :{', :'.join(values)}")
        each.replace(exp.cast(exp.Literal.string(values[name].isoformat()), "date"))
    return tree.sql(dialect=DIALECT)
