"""A digest of the settings that the rows of a pipeline depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from attrs import NOTHING, Attribute, evolve, fields, has

from ..config import Deployment
from ..services.kind import find_inputs


def digest_settings(deployment: Deployment, pipeline: str) -> str:
    """The digest of the settings of a pipeline and its sources, and of the pipelines that it reads, with theirs.

    Where a source reads is part of it: at another place, other rows may have the same offsets. Left out is what no row
    depends on: where a setting stands in the file, how pipelines are run, where the view is published, and how long
    versions are kept; what is never shown, such as secrets; and what has its default, so that a setting which a later
    version adds does not change the digest.
    """
    found = [_plain(each) for name in _with_inputs(deployment, pipeline) for each in _settings(deployment, name)]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def digest_rebuild(deployment: Deployment, pipeline: str) -> str:
    """What a rebuild builds with: the digest of the settings, and the backend.

    Tables of one type of Hudi are not continued as the other one: that needs another generation, with the same rows.
    """
    return f"{digest_settings(deployment, pipeline)} {deployment.backend.name}"


def _with_inputs(deployment: Deployment, pipeline: str) -> list[str]:
    """A pipeline and those that it reads, directly or through others."""
    found = [pipeline]
    for name in found:
        found += sorted(set(find_inputs(deployment.pipelines[name])).difference(found))
    return found


def _settings(deployment: Deployment, pipeline: str) -> Iterator[object]:
    """The settings that the rows of one pipeline depend on."""
    found = deployment.pipelines[pipeline]
    yield evolve(found, publish=None, retain=None, expire_every=None, epoch_takes=None)
    yield from (deployment.sources[name] for name in sorted(set(found.sources)))


def _plain(value: Any) -> Any:
    """A value in lists and texts, in an order that is the same in each process."""
    if has(type(value)):
        shown = (each for each in fields(type(value)) if each.repr and each.name != "place")
        given = ((each, _plain(getattr(value, each.name))) for each in shown)
        return [type(value).__name__, *((each.name, plain) for each, plain in given if plain != _default(each))]
    if hasattr(value, "items"):
        return sorted((str(key), _plain(each)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)


def _default(each: Attribute[Any]) -> Any:
    """The default of a setting, as `_plain` shows it; None, which it never shows, if there is none."""
    if each.default is NOTHING:
        return None
    factory = getattr(each.default, "factory", None)
    return _plain(factory() if factory else each.default)
