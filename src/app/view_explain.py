"""What a change of each input of a materialized view will compute anew, in words; nothing is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.errors import ConfigError
from ..domain.materialized_view import ALL, MaterializedView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..domain.materialized_view import Route, Term
    from .api import Headwater


def explain_view(headwater: Headwater, name: str) -> Iterator[str]:
    """The lines of ``headwater explain``: the scope, then for each input where its changes lead and how it is read.

    Raises:
        ConfigError: there is no such pipeline, or it is no materialized view.
    """
    pipeline, _ = headwater.find(name)
    service = headwater.services[pipeline]
    if not isinstance(service, MaterializedView):
        raise ConfigError(f"pipeline {pipeline!r} is no materialized view; `headwater check` tells of all others")
    settings, scope = service.settings, ", ".join(service.routes.scope)
    moment = "all as of one event time" if settings.aligned else "at its newest publication"
    inputs = ", ".join(f"{each} ({of.pipeline})" for each, of in settings.inputs.items())
    yield f"{pipeline}, a view over {inputs}, {moment}"
    yield f"  computes anew the rows that share {scope}, one net change a row of key {', '.join(settings.key)}"
    for each in service.routes.inputs:
        yield f"  input {each}"
        yield from dict.fromkeys(f"    {line}" for line in _input(service, each))
    if unread := [each for each in settings.inputs if each not in service.routes.inputs]:
        yield f"  not read: {', '.join(unread)}"


def _input(service: MaterializedView, name: str) -> Iterator[str]:
    declared = service.settings.changes.get(name)
    if declared == ALL:
        yield "a change computes the whole view anew, as declared"
    elif declared is not None:
        yield f"a change concerns what is declared: {' '.join(declared.split())}"
    for read in service.routes.of(name):
        if declared is None and read.upward is not None:
            told = ", ".join(_shown(value) for value, _ in read.upward.ends)
            where = read.upward.hops[-1].input if read.upward.hops else "it"
            yield f"a change {_way(service, read.upward)}concerns what {where} says: {told}"
        if read.downward is None:
            yield "to compute rows, it is read whole: no equality of a join leads there"
        else:
            last = _found(service, name, [term for _, term in read.downward.ends])
            yield f"to compute rows, {_way(service, read.downward)}it is looked up by {last}"


def _way(service: MaterializedView, route: Route) -> str:
    """What is looked up on the way."""
    found = (
        f"{hop.input} is looked up by {_found(service, hop.input, [term for _, term in hop.by])}, then "
        for hop in route.hops
    )
    return "".join(found)


def _found(service: MaterializedView, name: str, terms: Sequence[Term]) -> str:
    """By what rows are found: the input's key, or an index."""
    shown = ", ".join(map(_shown, terms))
    index = service.kept.index(name, terms)
    return f"{shown} ({'its key' if index is None else f'index {index.table.name}'})"


def _shown(term: Term) -> str:
    return term.column or term.sql
