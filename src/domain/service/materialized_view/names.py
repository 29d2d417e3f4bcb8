"""The names of the columns and the indexes for values that a view looks up: no two have one name, ignoring case."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from typing import TypeAlias

from .derivation import SourceExpr
from .routes import Routes

Lookup: TypeAlias = tuple[str, tuple[SourceExpr, ...]]
"""An input, and the expressions by which its rows are looked up."""
_LONGEST = 200
"""The length of the readable part of an index's name, which becomes the name of a folder."""
Identity: TypeAlias = tuple[str, ...]
"""The identity of an index: its input, and the SQL of its expressions. Two reads of one input may share an index."""


def name_of(value: SourceExpr) -> str:
    """The name of the column with a known value."""
    if value.column:
        return f"_{value.read}_{value.column}"
    return f"_expr{value.read}_{hashlib.sha256(value.sql.encode()).hexdigest()[:16]}"


def identify(lookup: Lookup) -> Identity:
    """The identity of the index for a lookup."""
    input_, exprs = lookup
    return (input_, *(expr.sql for expr in exprs))


def index_names(lookups: Collection[Lookup]) -> dict[Identity, str]:
    """The names of the indexes for these lookups: readable, unless two indexes would have one name."""
    readable = {identify(each): _readable_name(each) for each in lookups}
    counts = Counter(name.lower() for name in readable.values())
    return {
        identity: name if counts[name.lower()] == 1 else _hashed_name(identity) for identity, name in readable.items()
    }


def _readable_name(lookup: Lookup) -> str:
    """A name with the names of the columns; with a hash if an expression has none, or if a table could not have it."""
    input_, exprs = lookup
    columns = [expr.column for expr in exprs]
    plain = "__".join(name for name in columns if name)
    if None in columns or not (plain.isascii() and plain.isidentifier()) or len(plain) > _LONGEST:
        return _hashed_name(identify(lookup))
    return f"{input_}_by_{plain}"


def _hashed_name(identity: Identity) -> str:
    return f"{identity[0]}_by_{hashlib.sha256(repr(identity).encode()).hexdigest()[:8]}"


def had_shared_names(routes: Routes, indexed: Collection[Lookup]) -> bool:
    """Whether earlier versions gave one name to two values of a route, or to two indexes, so that rows may be wrong.

    Args:
        routes: of the view.
        indexed: the lookups that have an index, one for each index.
    """
    found = [read.upward for read in routes.reads] + [read.downward for read in routes.reads]
    named = [[_former_name(value) for value in route.needed(0)] for route in found if route]
    return any(len({*names}) < len(names) for names in [*named, [_readable_name(each).lower() for each in indexed]])


def _former_name(value: SourceExpr) -> str:
    return f"_{value.read}_{value.sql}".replace("`", "").replace(".", "_").lower()
