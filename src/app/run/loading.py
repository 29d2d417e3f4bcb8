"""Whether the history of a pipeline is being loaded, so that it cannot be run yet."""

from __future__ import annotations

from ...domain.epoch.epoch import Publication
from ...domain.errors import ConfigError
from ...domain.ledger.ledger import Ledger
from ...domain.service.base import Views
from ...domain.service.history_load import HISTORY, loading_table


def is_loading(ledger: Ledger, service: Views) -> bool:
    """Whether a load of the history has begun and nothing is published yet."""
    if ledger.latest is not None:
        return False
    return next(ledger.store.versions(loading_table(service.tables[-1].name)), None) is not None


def check_loaded(ledger: Ledger, service: Views) -> None:
    """Check that no load has begun that is not finished.

    Raises:
        ConfigError: one has.
    """
    if is_loading(ledger, service):
        raise ConfigError(
            f"pipeline {ledger.pipeline!r} is being loaded: finish the load with the `headwater bootstrap` command"
            " that began it, or remove the pipeline's folder to start again"
        )


def check_no_history(ledger: Ledger, service: Views, latest: Publication) -> None:
    """Check that no row has come from a load of the history, which a rebuild would not read.

    Raises:
        ConfigError: some have.
    """
    loaded = next(ledger.store.versions(loading_table(service.tables[-1].name)), None) is not None
    if loaded or HISTORY in (latest.beginning or {}):
        raise ConfigError(
            f"pipeline {ledger.pipeline!r} has rows of a history that was loaded with `headwater bootstrap`, and a"
            " rebuild reads its sources only: declare the edited pipeline under another name, and bootstrap that"
        )
