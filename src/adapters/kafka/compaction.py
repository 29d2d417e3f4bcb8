"""Compacted topics: refused, or warned of, if somebody needs the records that compaction removes."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...domain.errors import ConfigError
from ...domain.source.record_spec import REFUSE

_log = logging.getLogger(__name__)


_FOUND = "topic {!r} is compacted (cleanup.policy): Kafka removes records whose key has a later one"


def check_compaction(compacted: Iterable[str], how: str) -> None:
    """Refuse or warn of topics that are compacted.

    Args:
        compacted: the topics.
        how: ``warn`` or ``refuse``; see `RecordSpec.compacted`.

    Raises:
        ConfigError: they are refused.
    """
    for topic in compacted:
        found = _FOUND.format(topic)
        if how == REFUSE:
            raise ConfigError(
                f"{found}. This pipeline needs each record, so its results would be wrong: read a topic with"
                ' cleanup.policy = delete. If no two records have the same key, set compaction = "ignore" in its source'
            )
        _log.warning(
            "%s. Results are right only if this key is the id of the pipeline's rows; if it is, set"
            ' compaction = "ignore" in its source',
            found,
        )


def warn_of_row_kinds(compacted: Iterable[str]) -> None:
    """Warn of topics that are compacted and get a view's changes as rows with row kinds."""
    for topic in compacted:
        _log.warning(
            "%s. Format json publishes each change as a record of its own, and a reader that adds changes up would lack"
            " some: publish upsert-json to a compacted topic, or set cleanup.policy = delete",
            _FOUND.format(topic),
        )
