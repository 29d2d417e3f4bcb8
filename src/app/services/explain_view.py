"""The output of ``headwater explain``: how changes of the inputs of a materialized view recompute its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...domain.service.materialized_view import ALL, MaterializedView, Route, SourceExpr


def explain_view(service: MaterializedView) -> Iterator[str]:
    """Yield the lines of ``headwater explain``: the scope, then for each input how its changes and rows are used."""
    settings, scope = service.settings, ", ".join(service.routes.scope)
    moment = "all as of one event time" if settings.aligned else "at its newest publication"
    inputs = ", ".join(f"{each} ({of.pipeline})" for each, of in settings.inputs.items())
    yield f"{settings.pipeline}, a view over {inputs}, {moment}"
    yield f"  recomputes the rows that share {scope}, with one net change for each key {', '.join(settings.key)}"
    if service.nulls:
        yield f"  {service.nulls}"
    for each in service.routes.inputs:
        yield f"  input {each}"
        yield from dict.fromkeys(f"    {line}" for line in _explain_input(service, each))
    if unread := [each for each in settings.inputs if each not in service.routes.inputs]:
        yield f"  not read: {', '.join(unread)}"


def _explain_input(service: MaterializedView, name: str) -> Iterator[str]:
    declared = service.settings.changes.get(name)
    if declared == ALL:
        yield "a change recomputes the whole view, as declared"
    elif declared is not None:
        yield f"a change concerns what is declared: {' '.join(declared.split())}"
    for read in service.routes.of(name):
        if declared is None and read.upward is not None:
            values = ", ".join(_show(value) for value, _ in read.upward.ends)
            where = read.upward.hops[-1].input if read.upward.hops else "it"
            yield f"a change {_explain_hops(service, read.upward)}concerns what {where} says: {values}"
        if read.downward is None:
            yield "to compute rows, it is read whole: no equality of a join leads there"
        else:
            last = _explain_lookup(service, name, [expr for _, expr in read.downward.ends])
            yield f"to compute rows, {_explain_hops(service, read.downward)}it is looked up by {last}"


def _explain_hops(service: MaterializedView, route: Route) -> str:
    """The lookups between an input and the scope, as text."""
    found = (
        f"{hop.input} is looked up by {_explain_lookup(service, hop.input, [expr for _, expr in hop.by])}, then "
        for hop in route.hops
    )
    return "".join(found)


def _explain_lookup(service: MaterializedView, name: str, exprs: Sequence[SourceExpr]) -> str:
    """The columns of a lookup, with the key or the index that serves it."""
    shown = ", ".join(map(_show, exprs))
    index = service.view_tables.index(name, exprs)
    return f"{shown} ({'its key' if index is None else f'index {index.table.name}'})"


def _show(expr: SourceExpr) -> str:
    return expr.column or expr.sql
