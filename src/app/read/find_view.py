"""Finds a pipeline, a view or a table of a deployment by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...domain.errors import ConfigError, did_you_mean
from ...domain.service.base import Service
from ...domain.table.view_spec import ViewSpec
from ..deployment.deployment import Deployment


class UnknownName(ConfigError):
    """There is nothing of the name that was asked for; the message lists the names that exist."""


def find_service(services: Mapping[str, Service], pipeline: str) -> Service:
    """Return the service of a pipeline.

    Raises:
        ConfigError: there is no such pipeline; the message lists those that exist.
    """
    _check_exists("pipeline", pipeline, services)
    return services[pipeline]


def find_pipelines(known: Iterable[str], given: Iterable[str] | None) -> list[str]:
    """Return the pipelines that a program names, or all that are known.

    Raises:
        ConfigError: it gives something else than a list of names, or there are none.
    """
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise ConfigError(f"{given!r} is not a list of names of pipelines; give several names, or one as [{given!r}]")
    if not (names := list(known if given is None else given)):
        raise ConfigError("there is no pipeline to run: add a table [pipelines.NAME], or name pipelines that exist")
    return names


def find_view(services: Mapping[str, Service], name: str) -> tuple[str, ViewSpec]:
    """Return the pipeline and the view that a name stands for; see `Headwater.find`."""
    pipeline, dot, wanted = str(name).partition(".")
    service = find_service(services, pipeline)
    tables = (ViewSpec(table.name.split(".", 1)[1], table.schema, table.key, table.key, "") for table in service.tables)
    known = {view.name: view for view in (*tables, *service.views)}
    wanted = wanted if dot else service.views[0].name
    if wanted not in known:
        listed = ", ".join(sorted(known))
        raise UnknownName(
            f"pipeline {pipeline!r} has no view {wanted!r}; there are: {listed}{did_you_mean(wanted, known)}"
        )
    return pipeline, known[wanted]


def find_readers(deployment: Deployment, source: str) -> tuple[str, ...]:
    """Return the pipelines that read a source; see `Headwater.push`.

    Raises:
        ConfigError: there is no such source, or no pipeline reads it.
    """
    _check_exists("source", source, deployment.sources)
    readers = tuple(name for name, each in deployment.pipelines.items() if source in each.sources)
    if not readers:
        raise ConfigError(f"no pipeline reads source {source!r}, so its rows would go nowhere: declare one first")
    return readers


def _check_exists(what: str, name: object, known: Mapping[str, object]) -> None:
    if not isinstance(name, str) or name not in known:
        raise UnknownName(
            f"there is no {what} {name!r}; there are: {', '.join(known) or 'none'}{did_you_mean(name, known)}"
        )
