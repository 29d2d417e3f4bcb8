"""Tables in a bucket of an object store: Amazon's S3 and stores that speak its protocol, Google's, or Azure's.

A commit is an object that must not exist yet: the store is asked to refuse it otherwise, so the second of two writers
fails. Objects are reached by the package obstore and by Polars, which both take their settings from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING
from uuid import uuid4

import obstore
import polars as pl
from attrs import define, field
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from ....domain.errors import ConfigError, NotSupported, StoreUnavailable
from ....domain.ports import SmallFiles
from ...polars.file_errors import explain_write_errors
from ...shared.object_store_errors import object_store_reason
from ...shared.table_folders import is_hidden
from ...shared.utf8 import KEEP_BYTES
from ..stored_file import StoredFile
from .endpoint import check_endpoint
from .storage import Storage, bucket_address

if TYPE_CHECKING:
    from obstore import ObjectMeta, SuffixRange
    from obstore.store import ObjectStore, RetryConfig

_RETRIED = timedelta(seconds=10)
"""A request is tried again for so long, and no signal interrupts it; then the run waits, and tries its epoch again."""
_LONGEST_WAIT = timedelta(seconds=3)
"""Before a request is tried again. Waits are random and grow, so that many processes do not try at one time."""
_RETRIES = 1000
"""More than `_RETRIED` has room for: only the time ends the tries, also where each is refused at once."""
_END = 64 * 1024
"""Most footers of Parquet files are in so many last bytes."""
_LENGTH_AND_MAGIC = 8
"""A Parquet file ends with the length of its footer in four bytes, and four that are always the same."""
_AZURE = ("az", "abfs", "abfss")
_SETTINGS = {
    "s3": "AWS_ENDPOINT_URL, AWS_REGION and the credentials",
    "gs": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS",
    **dict.fromkeys(_AZURE, "AZURE_STORAGE_ACCOUNT_NAME and the credentials"),
}
"""The settings in the environment, by scheme."""


@define(eq=False)
class Bucket(Storage):
    """The bucket of an address such as ``s3://bucket/lake``. Several threads may use it.

    In Azure's store, which calls it a container: ``az://container/lake``, or with the account
    ``abfss://container@account.dfs.core.windows.net/lake``.
    """

    page, at_once = 1000, 8

    address: str = field(converter=bucket_address)
    _is_checked: bool = field(init=False, default=False)

    @address.validator
    def _check_address(self, _: object, address: str) -> None:
        """Refuse what cannot be the beginning of an object's name."""
        scheme, _, place = address.partition("://")
        if not place or not {"", ".", ".."}.isdisjoint(place.split("/")):
            raise ConfigError(
                f"backend.path: {address} has no bucket, or an empty part, or one of dots: write"
                f" {scheme.removesuffix(':')}://bucket/folder"
            )

    def read_text(self, path: str) -> str | None:
        try:
            return self._read(path).decode("utf-8", KEEP_BYTES)
        except FileNotFoundError:
            return None

    def create(self, path: str, text: str) -> bool:
        """See `Files.create`.

        Raises:
            NotSupported: the store would overwrite the commits of others.
        """
        if not self._is_checked:
            self._check_refuses()
            self._is_checked = True
        return self._create(path, text)

    def has(self, path: str) -> bool:
        try:
            with _explaining("read", path):
                obstore.head(self._store, self._key(path))
        except FileNotFoundError:
            return False
        return True

    def list_files(self, folder: str, *, deep: bool) -> list[StoredFile]:
        prefix = f"{self._key(folder)}/"
        with _explaining("list", folder):
            if deep:
                found = list(self._list(prefix))
            else:
                found = list(obstore.list_with_delimiter(self._store, prefix)["objects"])
        files = (self._stored(each, prefix) for each in found)
        return [file for file in files if not any(map(is_hidden if deep else _is_draft, file.name.split("/")))]

    def list_names(self, folder: str, *, after: str = "") -> Iterator[str]:
        prefix = f"{self._key(folder)}/"
        with _explaining("list", folder):
            for found in self._list(prefix, after):
                name = found["path"].removeprefix(prefix)
                if "/" not in name and not _is_draft(name):
                    yield name

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError), _explaining("delete", path):
            obstore.delete(self._store, [self._key(path)])

    def small_files(self, folder: str) -> SmallFiles:
        return _BucketFiles(self, folder)

    @contextmanager
    def writing(self, path: str) -> Iterator[Path]:
        with TemporaryDirectory(prefix="headwater-") as folder:
            file = Path(folder) / "part.parquet"
            with explain_write_errors(file):
                yield file
            self.upload(path, file)

    def open(self, path: str) -> IO[bytes]:
        return BytesIO(self._read(path))

    def open_end(self, path: str) -> IO[bytes]:
        end = self._read_end(path, _END)
        needed = int.from_bytes(end[-_LENGTH_AND_MAGIC:][:4], "little") + _LENGTH_AND_MAGIC
        return BytesIO(end if needed <= len(end) else self._read_end(path, needed))

    def scan(self, path: str) -> pl.LazyFrame:
        # Without a provider of its own, Polars takes the credentials that obstore takes.
        return pl.scan_parquet(bucket_address(path), hive_partitioning=False, glob=False, credential_provider=None)

    def upload(self, path: str, content: Path | bytes) -> None:
        """Write an object; it replaces an existing one."""
        with _explaining("write", path):
            obstore.put(self._store, self._key(path), content)

    def _read(self, path: str) -> bytes:
        with _explaining("read", path):
            return obstore.get(self._store, self._key(path)).bytes().to_bytes()

    def _read_end(self, path: str, number: int) -> bytes:
        """The last bytes of an object."""
        with _explaining("read", path):
            found = obstore.get(self._store, self._key(path), options={"range": self._last(path, number)})
            return found.bytes().to_bytes()

    def _last(self, path: str, number: int) -> SuffixRange | tuple[int, int]:
        """The range of the last bytes of an object; Azure's store takes none that counts from the end."""
        if _scheme(path) not in _AZURE:
            return {"suffix": number}
        size = obstore.head(self._store, self._key(path))["size"]
        return max(0, size - number), size

    def _list(self, prefix: str, after: str = "") -> Iterator[ObjectMeta]:
        """The objects whose names begin with a prefix, and sort after the prefix and a further text."""
        pages = obstore.list(self._store, prefix, offset=f"{prefix}{after}" if after else None, chunk_size=self.page)
        return (each for page in pages for each in page)

    def _create(self, path: str, text: str) -> bool:
        try:
            with _explaining("write", path):
                obstore.put(self._store, self._key(path), text.encode(), mode="create")
        except AlreadyExistsError:
            return self.read_text(path) == text  # our own, if only the answer was lost and the request was repeated
        except StoreUnavailable:
            with suppress(StoreUnavailable):
                if self.read_text(path) == text:
                    return True
            raise
        return True

    def _check_refuses(self) -> None:
        """Check that the store refuses to overwrite an object where it is asked to: not all that speak S3 do."""
        probe = f"{self.address}/.headwater-{uuid4().hex}"
        try:
            refuses = self._create(probe, "one writer") and not self._create(probe, "the other")
        finally:
            self.delete(probe)
        if not refuses:
            raise NotSupported(
                f"the object store of {self.address}, which overwrites an object where it is asked to refuse that"
                " (If-None-Match): one of two writers would overwrite the commit of the other",
                "delta, engine local",
                "use a store that keeps this condition, or a folder of this machine",
            )

    @cached_property
    def _store(self) -> ObjectStore:
        if _scheme(self.address) == "s3":
            check_endpoint(os.environ)
        try:
            return from_url(_bucket(self.address), retry_config=_retry_config())
        except (BaseError, ValueError) as error:
            reason = object_store_reason(error)
            raise ConfigError(f"backend.path: {self.address}: {reason}; {_advice(self.address)}") from error

    def _key(self, path: str) -> str:
        return bucket_address(path).removeprefix(_bucket(self.address)).removeprefix("/")

    def _stored(self, found: ObjectMeta, prefix: str) -> StoredFile:
        path = f"{_bucket(self.address)}/{found['path']}"
        return StoredFile(path, found["path"].removeprefix(prefix), found["size"], found["last_modified"])


@define(eq=False)
class _BucketFiles(SmallFiles):
    """The small files of a folder in a bucket."""

    bucket: Bucket
    folder: str

    def write(self, name: str, text: str) -> None:
        self.bucket.upload(f"{self.folder}/{name}", text.encode())

    def delete(self, name: str) -> None:
        self.bucket.delete(f"{self.folder}/{name}")

    def read(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        for file in self.bucket.list_files(self.folder, deep=False):
            if (text := self.bucket.read_text(file.path)) is None:
                return None
            found[file.name] = text
        return found


@contextmanager
def _explaining(doing: str, path: str) -> Iterator[None]:
    """Translate errors of the object store, but for `FileNotFoundError` and obstore's `AlreadyExistsError`.

    If an object cannot be written because something is not there, it is the bucket: that is `StoreUnavailable`.
    """
    try:
        yield
    except AlreadyExistsError:
        raise
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError) and doing != "write":
            raise
        raise StoreUnavailable(f"cannot {doing} {path}: {object_store_reason(error)}; {_advice(path)}") from error


def _retry_config() -> RetryConfig:
    return {"retry_timeout": _RETRIED, "max_retries": _RETRIES, "backoff": {"max_backoff": _LONGEST_WAIT}}


def _advice(address: str) -> str:
    return f"look at the address, at {_SETTINGS[_scheme(address)]} in the environment"


def _scheme(address: str) -> str:
    return bucket_address(address).partition("://")[0]


def _bucket(address: str) -> str:
    return "/".join(address.split("/")[:3])


def _is_draft(name: str) -> bool:
    return name.startswith(".")
