"""The measures of a pipeline: each is an SQL text, or a table with an SQL text and a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....domain.service.measures import Measure
from ...document.value_types import TEXT, Key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...deployment.deployment import SourceSettings
    from ...document.document import Document
    from ...document.lines import KeyPath

_MEASURE = {"measure": Key(TEXT, required=True), "where": Key(TEXT)}


def measures(
    document: Document, path: KeyPath, source: SourceSettings, *, estimates: bool = False
) -> Iterator[Measure]:
    """Yield the measures of a table of the file.

    Args:
        document: the configuration file.
        path: of the table.
        source: the source with their columns.
        estimates: whether estimates are allowed.

    Raises:
        ConfigError: names file, line and key of the first text that is not a measure.
    """
    for name, values in document.table(path).items():
        at = (*path, name)
        section = document.section(at, _MEASURE) if isinstance(values, dict) else {"measure": _text(document, at)}
        yield document.build(at, lambda: _measure(name, section, source, estimates=estimates))  # noqa: B023 - called at once


def check_old_images(document: Document, path: KeyPath, source: SourceSettings) -> None:
    """Refuse a source whose updates may lack their old image, because measures must subtract it.

    Args:
        document: the configuration file.
        path: of the pipeline.
        source: the source that the pipeline reads.

    Raises:
        ConfigError: the source has `before = "optional"`; names the line of the pipeline's key.
    """
    if source.records.changes.before == "optional":
        raise document.error(
            (*path, "source"),
            f'source {source.name!r} has before = "optional": an update without its old image would count its row'
            ' twice. Leave `before` out of the source ("required": such an update is a dead letter), and let the'
            " database log whole rows; a pipeline that identifies rows by a key may read a second source with it",
        )


def measures_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the measures that are in the file."""
    if not isinstance(values := pipeline.get("measures"), dict):
        return {}
    return {"measures": {name: _MEASURE if isinstance(each, dict) else Key(TEXT) for name, each in values.items()}}


def _measure(name: str, section: Mapping[str, Any], source: SourceSettings, *, estimates: bool) -> Measure:
    return Measure.parse(name, section["measure"], section.get("where"), source.records.rows, estimates=estimates)


def _text(document: Document, path: KeyPath) -> str:
    return str(document.value(path, Key(TEXT, required=True)))
