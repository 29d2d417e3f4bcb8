"""A digest of the settings that the rows of a pipeline depend on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields, has

if TYPE_CHECKING:
    from .deployment import Deployment


def digest_settings(deployment: Deployment, pipeline: str) -> str:
    """The digest of a pipeline's settings and of those of its sources.

    Left out is what no row depends on: where a setting stands in the file, where the view is published, and how long
    versions are kept; and what is never shown, such as secrets.
    """
    found = deployment.pipelines[pipeline]
    rows = evolve(found, publish=None, retain=None, expire_every=None, epoch_takes=None)
    read = [deployment.sources[name] for name in sorted(set(found.sources))]
    return hashlib.sha256(repr([_plain(each) for each in (rows, *read)]).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A value in lists and texts, in an order that is the same in each process."""
    if has(type(value)):
        shown = (each for each in fields(type(value)) if each.repr and each.name != "place")
        return [type(value).__name__, *((each.name, _plain(getattr(value, each.name))) for each in shown)]
    if hasattr(value, "items"):
        return sorted((str(key), _plain(each)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
