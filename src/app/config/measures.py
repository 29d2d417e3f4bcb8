"""The measures of a pipeline, each a text of SQL, or a table with a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.measures import Measure
from .kinds import TEXT, Key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .document import Document
    from .lines import KeyPath
    from .values import SourceSettings

_MEASURE = {"measure": Key(TEXT, required=True), "where": Key(TEXT)}


def measures(
    document: Document, path: KeyPath, source: SourceSettings, *, estimates: bool = False
) -> Iterator[Measure]:
    """The measures in a table of a configuration.

    Args:
        document: what they stand in.
        path: of the table.
        source: whose columns they are over.
        estimates: whether estimates are allowed.

    Raises:
        ConfigError: with file, line and key of the first one that is none.
    """
    for name, given in document.table(path).items():
        at = (*path, name)
        said = document.section(at, _MEASURE) if isinstance(given, dict) else {"measure": _text(document, at)}
        yield document.built(at, lambda: _measure(name, said, source, estimates=estimates))  # noqa: B023 - called at once


def check_old_images(document: Document, path: KeyPath, source: SourceSettings) -> None:
    """Refuse a source whose updates may come without their old image: measures could not take that back.

    Args:
        document: what they stand in.
        path: of the pipeline.
        source: that it reads.

    Raises:
        ConfigError: there is such a source; with the place of the pipeline's key.
    """
    if source.records.changes.before == "optional":
        raise document.error(
            (*path, "source"),
            f'source {source.name!r} has before = "optional": an update without its old image would count its row'
            ' twice. Leave `before` out of the source ("required": such an update is a dead letter), and let the'
            " database log whole rows; a pipeline that knows rows by their key may read a second source with it",
        )


def measures_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a pipeline's measures, as far as it has some."""
    if not isinstance(given := pipeline.get("measures"), dict):
        return {}
    return {"measures": {name: _MEASURE if isinstance(each, dict) else Key(TEXT) for name, each in given.items()}}


def _measure(name: str, said: Mapping[str, Any], source: SourceSettings, *, estimates: bool) -> Measure:
    return Measure.parse(name, said["measure"], said.get("where"), source.records.rows, estimates=estimates)


def _text(document: Document, path: KeyPath) -> str:
    return str(document.value(path, Key(TEXT, required=True)))
