"""The description of the API, as OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

_COUNT = {"name": "count", "about": "the greatest number", "type": "integer"}
_PATHS: dict[str, tuple[str, tuple[dict[str, str], ...]]] = {
    "/healthz": ("The server is alive, and its run if it has one; else 503.", ()),
    "/readyz": ("All pipelines can be read, have published, and have no alarm; else 503 with the problems.", ()),
    "/metrics": ("Metrics for Prometheus, as text.", ()),
    "/api/status": ("The status of each pipeline, with the columns of `headwater status`.", ()),
    "/api/graph": ("Sources, pipelines and sinks, and what flows between them.", ()),
    "/api/pipelines/{pipeline}/epochs": ("The newest epochs, oldest first: times, rows, seconds.", (_COUNT,)),
    "/api/pipelines/{pipeline}/versions": ("The newest publications, and what holds them.", (_COUNT,)),
    "/api/pipelines/{pipeline}/dead-letters": ("Reasons with their numbers, and the newest dead letters.", ()),
    "/api/views/{view}": (
        "The first rows of a view (PIPELINE.VIEW) in its display order.",
        (
            {"name": "at", "about": "the version: an epoch, a time or label:LABEL", "type": "string"},
            {"name": "as_of", "about": "only rows up to this event time", "type": "string"},
            {"name": "limit", "about": "the greatest number of rows", "type": "integer"},
        ),
    ),
    "/api/curves/{curve}": (
        "The highest curves of cumulate windows (PIPELINE.CURVE).",
        (
            {"name": "measure", "about": "the measure; the first if not set", "type": "string"},
            {"name": "groups", "about": "the greatest number of curves", "type": "integer"},
        ),
    ),
}


def openapi() -> dict[str, Any]:
    """The document."""
    paths = {path: {"get": _operation(path, about, asked)} for path, (about, asked) in _PATHS.items()}
    return {"openapi": "3.1.0", "info": {"title": "Headwater", "version": version("headwater")}, "paths": paths}


def _operation(path: str, about: str, asked: tuple[dict[str, str], ...]) -> dict[str, Any]:
    inside = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in inside]
    parameters += [
        {"name": each["name"], "in": "query", "description": each["about"], "schema": {"type": each["type"]}}
        for each in asked
    ]
    kind = "text/plain" if path == "/metrics" else "application/json"
    answers = {"200": {"description": about, "content": {kind: {}}}}
    if asked:
        answers["400"] = {"description": "A parameter is wrong; the message tells what is allowed.", "content": {}}
    if "{" in path:
        answers["404"] = {"description": "There is no such thing; the message lists those that exist.", "content": {}}
    return {"summary": about, "parameters": parameters, "responses": answers}
