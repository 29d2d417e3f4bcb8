"""Translates errors of Polars, PyArrow and the disk about data files into Headwater's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa

from ...domain.errors import HeadwaterError, StoreUnavailable, TableDamaged, VersionExpired, first_line
from ..shared.object_store_errors import object_store_reason

_PARQUET = "parquet: "
"""How Polars begins its errors about a file's content; other errors of computing are not about stored rows."""
_DISK = "underlying IO error"
_OBJECT_STORE = "object-store error: "
"""How Polars begins errors of an object store, which have no number of the operating system."""


@contextmanager
def explain_read_errors(path: Path | str | None = None) -> Iterator[None]:
    """Translate errors in reading data files, as `FrameEngine.explaining` does; `path` is the file, if it is one.

    Raises:
        VersionExpired: a file is gone.
        TableDamaged: a file is truncated or changed.
        StoreUnavailable: the disk fails.
    """
    what = "a data file" if path is None else f"file {path}"
    try:
        yield
    except HeadwaterError:  # some are errors of the operating system too, and say all there is to say
        raise
    except FileNotFoundError as error:
        raise VersionExpired(
            f"{what} is gone ({_reason(error)}): its version expired while it was read, or another program or a"
            " person removed it. Read a newer version, and pin what you read for long; if the newest one cannot be"
            " read either, put the file back from a backup"
        ) from error
    except OSError as error:
        raise _of_system(what, error) from error
    except pl.exceptions.PolarsError as error:
        if not str(error).startswith(_PARQUET):
            raise
        if _DISK in str(error):
            raise _on_disk(what, error) from error
        raise _damaged(what, error) from error
    except pa.ArrowException as error:
        raise _damaged(what, error) from error


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Translate errors in writing a data file, and delete what was written of it.

    Raises:
        StoreUnavailable: the disk fails or is full.
        HeadwaterError: the rows, which are read while they are written, cannot be read.
    """
    try:
        yield
    except HeadwaterError:
        path.unlink(missing_ok=True)
        raise
    except (OSError, pl.exceptions.ComputeError) as error:
        path.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"cannot write {path}: {first_line(error)}; look at the disk and its free space, and who may write"
        ) from error


def _of_system(what: str, error: OSError) -> TableDamaged | StoreUnavailable:
    if str(error).startswith(_OBJECT_STORE):
        return StoreUnavailable(f"stored rows cannot be reached just now: {what}: {_reason(error)}")
    if error.errno is None:  # PyArrow raises such errors for content that it cannot read
        return _damaged(what, error)
    return _on_disk(what, error)


def _on_disk(what: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"stored rows cannot be reached just now: {what}: {first_line(error)}; look at the disk, and who may read it"
    )


def _reason(error: OSError) -> str:
    if str(error).startswith(_OBJECT_STORE):
        return object_store_reason(error).removeprefix(_OBJECT_STORE)
    return first_line(error)


def _damaged(what: str, error: Exception) -> TableDamaged:
    return TableDamaged(f"{what} cannot be read ({first_line(error)}); put it back from a backup")
