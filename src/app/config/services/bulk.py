"""The keys of a bulk load, by the kind of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...document.section import Section
from ...registry.sources import bulk_kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...deployment.deployment import BulkInput
    from ...document.document import Document
    from ...document.lines import KeyPath


def bulk(document: Document, path: KeyPath) -> BulkInput:
    """Read the settings of a bulk load; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of its table.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    kind = bulk_kind_of(document.table(path))
    settings: BulkInput = kind.parse(Section(document, path, kind.keys))
    return settings


def bulk_shape(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a bulk load that the environment may override."""
    return dict(bulk_kind_of(table).keys)
