"""Refuses sources whose updates may lack their old image, where a service needs it."""

from __future__ import annotations

from collections.abc import Iterable

from ...domain.source.changelog.settings import DEBEZIUM
from ..deployment.deployment import SourceSettings
from ..document.section import Section

_REMEDY = (
    'Leave `before` out of the source ("required": such an update is a dead letter), and let the database log whole'
    " rows"
)


def check_subtracted(table: Section, source: SourceSettings) -> None:
    """Refuse a source whose updates may lack their old image, because measures must subtract it.

    Raises:
        ConfigError: the source has `before = "optional"`; names the line of the pipeline's `source`.
    """
    if source.records.changes.before == "optional":
        raise table.error(
            f'source {source.name!r} has before = "optional": an update without its old image would count its row'
            f" twice. {_REMEDY}; a pipeline that identifies rows by a key may read a second source with it",
            "source",
        )


def check_fixed(table: Section, source: SourceSettings, read: Iterable[str], *at: str) -> None:
    """Refuse a source whose updates may lack their old image, unless no update can change what identifies a row.

    A row that an update moves to another key would stay under its former key too.

    Args:
        table: the table of the pipeline or topic.
        source: the source.
        read: the columns that identify a row of the pipeline, or from which its key is computed; case does not matter.
        at: the key whose line the error names.

    Raises:
        ConfigError: the source has `before = "optional"`, and a column is not in its `key`.
    """
    changes = source.records.changes
    if changes.before != "optional" or source.records.format != DEBEZIUM:  # the others always send old values
        return
    fixed = {name.lower() for name in (*changes.key, *changes.metadata)}  # both images have the same metadata
    free = [name for name in read if name.lower() not in fixed]
    if not free:
        return
    source_has = f'source {source.name!r} has before = "optional"'
    if not changes.key:
        raise table.error(
            f"{source_has} and no `key`, so it is not known whether an update may change column {free[0]!r}: without"
            " its old image the row of the earlier value would stay. Name the primary key of its table as the source's"
            " `key`, with this column in it",
            *at,
        )
    raise table.error(
        f"{source_has}, and column {free[0]!r} is not in its `key` ({', '.join(changes.key)}), so an update may change"
        f" it: without its old image the row of the earlier value would stay. {_REMEDY}; or identify rows by columns of"
        " that `key`",
        *at,
    )
