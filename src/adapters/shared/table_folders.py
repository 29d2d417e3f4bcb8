"""Folders of tables whose rows are not those of the files in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import MappingProxyType

from ...domain.errors import ConfigError

LOGS = MappingProxyType({"delta": "_delta_log", "hudi": ".hoodie"})
"""The folder with a table's log, by format."""


def check_exists(path: str, what: str) -> None:
    """Refuse a local path with no file or folder; `what` should be there, for the message.

    Raises:
        ConfigError: nothing is there, or the path cannot be looked up.
    """
    try:
        there = Path(path).exists()
    except OSError as error:  # it is too long, for example
        raise ConfigError(f"{path} cannot be read: {error.strerror}; correct the path") from error
    if not there:
        raise ConfigError(f"there is nothing at {path}; put {what} there")


def check_no_table(folder: str, names: Collection[str]) -> None:
    """Refuse to read the Parquet files of a table as plain files: some are of earlier versions, or were replaced.

    Raises:
        ConfigError: it has the log of a table.
    """
    for form, log in LOGS.items():
        if log in names:
            raise ConfigError(
                f"{folder} is a table of {form}: some of its Parquet files have rows of earlier versions. Where format"
                f" {form} can be read (a bulk, a history, an input of a query), name it; else write the table's rows"
                " to Parquet files in another folder"
            )


def is_hidden(name: str) -> bool:
    """Whether Spark reads no file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_in_partition(file: Sequence[str]) -> bool:
    """Whether Spark takes a file for one of a partition, and reads its folders (`day=2024-03-31`) as columns.

    Args:
        file: the names of the folders below that of the table, and of the file.
    """
    return any("=" in folder for folder in file[:-1]) and not any(map(is_hidden, file))
