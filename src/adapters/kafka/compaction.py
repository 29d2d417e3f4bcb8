"""Compacted topics: refused, or warned of, if a service needs the records that compaction removes."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...domain.errors import ConfigError
from ...domain.source.record_spec import REFUSE

_log = logging.getLogger(__name__)


def check_compaction(compacted: Iterable[str], how: str) -> None:
    """Refuse or warn of topics that are compacted.

    Args:
        compacted: the topics.
        how: ``warn`` or ``refuse``; see `RecordSpec.compacted`.

    Raises:
        ConfigError: they are refused.
    """
    for topic in compacted:
        found = f"topic {topic!r} is compacted (cleanup.policy): Kafka removes records whose key has a later one"
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
