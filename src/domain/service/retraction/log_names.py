"""Refuses tables in which an earlier version may have stored two logs under one name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import narwhals as nw

from ...errors import ConfigError
from ...source.changelog.log_name import LISTED, plain_name
from ...table.collect import collect_small
from ...table.spec import REBUILD
from .jumps import NEW_LOG, has_form_of_beginning
from .tables import PARTITION, PLACE


def is_listed() -> nw.Expr:
    """Whether the name of a row's log is a list; see `log_name.name_log`. False for a row without a log."""
    return nw.col(PARTITION).str.contains(LISTED, literal=True).fill_null(value=False)


def check_log_names(pipeline: str, rows: nw.LazyFrame[Any], places: nw.LazyFrame[Any]) -> None:
    """Check that no log in the batch may have been stored under the name of another one.

    Args:
        pipeline: the name of the pipeline, for the message.
        rows: rows of the batch with their log in `PARTITION`.
        places: the stored logs.

    Raises:
        ConfigError: the tables must be built again.
    """
    stored = {line[PARTITION]: line[PLACE] for line in collect_small(places.select(PARTITION, PLACE))}
    lines = collect_small(rows.filter(is_listed()).select(PARTITION).unique())
    found = {re.sub(NEW_LOG, "", line[PARTITION]) for line in lines}
    if (name := _find_shared(found, stored)) is not None:
        raise ConfigError(
            f"pipeline {pipeline!r}: the table of its logs has the log {name!r}, which may be two logs: an earlier"
            f" version of Headwater did not always keep the names of logs apart. If the pipeline was built with such a"
            f" version, {REBUILD}. Otherwise make all messages name their server (Maxwell: output_server_id)"
        )


def _find_shared(found: Collection[str], stored: Mapping[str, str | None]) -> str | None:
    """The first stored name that may belong to two logs; None if there is none.

    Such are the plain name of a log that now has a list as its name, and the name of a beginning that has a place.
    """
    plain = {plain_name(name) for name in found if name not in stored}
    shared = (name for name, place in stored.items() if place is not None)
    return next((name for name in sorted(shared) if name in plain or has_form_of_beginning(name)), None)
