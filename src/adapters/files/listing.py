"""Plans which files of a directory an epoch reads, from the offsets and the files that are waiting.

Offsets stay small for any number of files: the first name ever read, the number of files read, the names and sizes
of the last 32, and a summary of the older names. A new file whose name sorts before the last one read is an error,
found by its name or by the summary. So is a change of one of the last files. Files that have been read may be deleted.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from attrs import asdict, field, frozen
from attrs.validators import ge, optional

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import BadInput, ConfigError, SourceChanged, SourceUnavailable
from ...domain.ports import other_kind
from ...domain.source.changelog.settings import CHANGE_FORMATS
from ...domain.source.epoch_size import EpochSize
from ..shared.compressed import COMPRESSED
from ..shared.path import name_fault
from ..shared.table_folders import check_no_table
from .folder import away, check_not_away
from .names_read import LastListing, NamesRead

_REMEMBERED = 32
_MOST_FILES = 256
"""The largest number of files in an epoch that is limited by its size: their names are stored in each commit."""
_PACKED = ("", *COMPRESSED)
_JSON = tuple(f"{name}{packed}" for name in (".json", ".jsonl", ".ndjson") for packed in _PACKED)
ENDINGS = {
    **dict.fromkeys(("json", *CHANGE_FORMATS), _JSON),
    "csv": tuple(f".csv{packed}" for packed in _PACKED),
    "parquet": (".parquet",),
}
"""The endings of file names that are read, by format."""
INCOMPLETE = ".tmp"
"""The ending of the names of files that are still being written."""
_AGAIN = (
    "read all files again with `headwater rebuild --again`. If it was still being written when it was planned, write"
    f" such files under a name that ends in {INCOMPLETE}, and rename them"
)
_ANEW = "write late rows to a file with a later name, or build the pipeline again under another name"


@frozen
class FilesSettings:
    """Where files arrive.

    Args:
        path: the directory. Files directly in it are read in the order of their names, without hidden ones (``_`` or
            ``.`` in front). A file must be complete when it appears: write it elsewhere or as ``*.tmp``, and rename it.
        files_per_epoch: the largest number of files in an epoch; None for one, or for many if there is a `limit`.
        limit: the largest size of an epoch; a larger file is an epoch of its own.
    """

    path: str
    files_per_epoch: int | None = field(default=None, validator=optional(ge(1)))
    limit: EpochSize = field(factory=EpochSize)

    @property
    def most_files(self) -> int:
        """The largest number of files in an epoch."""
        return self.files_per_epoch or (1 if self.limit == EpochSize() else _MOST_FILES)


@frozen
class _Read:
    """The files that have been read, as the offsets store them."""

    first: str
    count: int
    newest: dict[str, int]
    """The last names read, in order, with their sizes in bytes."""
    older: NamesRead | None = None
    """The names before those; None if there are none, or if an earlier version has written the offsets."""

    @classmethod
    def of(cls, offsets: Offsets) -> _Read:
        if not isinstance(offsets.get("first"), str):
            raise other_kind("files")
        older = NamesRead(**offsets["older"]) if "older" in offsets else None
        return cls(offsets["first"], offsets["count"], dict(sorted(offsets["newest"].items())), older)

    @property
    def last(self) -> str:
        return next(reversed(self.newest))

    def and_then(self, files: dict[str, int], names: list[str]) -> Offsets:
        """The offsets after these further files; ``epoch`` is their number.

        Args:
            files: the names and sizes of the files.
            names: the names of all files that are there, in order.
        """
        kept = dict([*self.newest.items(), *files.items()][-max(_REMEMBERED, len(files)) :])
        first, count = self.first or next(iter(files)), self.count + len(files)
        offsets = {"first": first, "count": count, "epoch": len(files), "newest": kept}
        if count == len(kept):
            return offsets
        before = _up_to(names, next(iter(self.newest or files)))
        older = self.older or NamesRead().and_then(before, before)
        forgotten = [name for name in self.newest if name not in kept]
        return offsets | {"older": asdict(older.and_then(forgotten, _up_to(names, next(iter(kept)))))}

    def find_late(self, names: list[str], listing: LastListing) -> list[str]:
        """The names among which one came after a later one had been read; empty if none is known to have come.

        Args:
            names: the names of all files that are there, in order.
            listing: the names that were there at the last check.
        """
        old = names[: bisect_right(names, self.last)]
        early = _up_to(old, next(iter(self.newest)))
        unknown = _up_to(early, self.first) + [name for name in old[len(early) :] if name not in self.newest]
        if unknown:
            return unknown[:1]
        if self.older:
            return self.older.find_late(early, listing)
        return listing.find_late(early, self.count - len(self.newest))


def check_given(offsets: Offsets) -> None:
    """Check that offsets that a user has written are offsets of files.

    Raises:
        ConfigError: they are not.
    """
    newest = offsets.get("newest")
    sized = isinstance(newest, dict) and newest and all(isinstance(size, int) for size in newest.values())
    if not (sized and isinstance(offsets.get("first"), str) and isinstance(offsets.get("count"), int)):
        raise ConfigError(
            f"{dict(offsets)} are not offsets of files; take those of a publication of a pipeline that reads them"
            ' ("first", "count" and "newest"), or write `beginning` or `now`'
        )


def _up_to(names: list[str], end: str) -> list[str]:
    """Those of these sorted names that sort before `end`."""
    return names[: bisect_left(names, end)]


def _fault(path: str) -> str:
    """Why a path cannot be listed, with the remedy."""
    if Path(path).is_file():
        return "is a file; name the folder that has it, whose files are all read"
    if any(letter in path for letter in "*?["):
        return "is not a directory, and patterns are not read; name the folder of the files"
    return "is not a directory; create it, or correct the path"


def _planned(offsets: OffsetRange) -> dict[str, int]:
    """The names of the files of a range, in order, with their sizes in bytes."""
    return dict(list(_Read.of(offsets.until).newest.items())[-offsets.until["epoch"] :])


_NOTHING = _Read("", 0, {})


@frozen
class Listing:
    """The present files of a directory.

    Args:
        settings: where to look.
        format: the format of the records, which decides the file names to look for.
        pass_over: called at each listing with the names of complete files that have another ending.
        measure: returns the size of a file's records; None if the file cannot be read, so that no other file waits for
            it.
    """

    settings: FilesSettings
    format: str
    pass_over: Callable[[list[str]], None] = field(default=lambda _names: None, eq=False)
    measure: Callable[[Path], EpochSize | None] = field(
        default=lambda path: EpochSize(bytes=path.stat().st_size), eq=False
    )
    _last: LastListing = field(init=False, factory=LastListing, eq=False)

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next files, as many as are waiting, up to the limits of the settings; None if there are none."""
        read, names = (_Read.of(after) if after else _NOTHING), self.names(read=bool(after))
        if after:
            self._check(read, names)
        following = self._fitting([name for name in names if not after or name > read.last])
        if not following:
            return None
        return OffsetRange(after, read.and_then({name: self.size(name) for name in following}, names))

    def check(self, after: Offsets) -> None:
        """Check that the files that were read are as they were; see `StreamSource.check_after`."""
        self._check(_Read.of(after), self.names(read=True))

    def check_complete(self, until: Offsets) -> None:
        """Check that all files that were read are there; see `Source.check_complete`."""
        read, names = _Read.of(until), self.names(read=True)
        self._check_names(read, names)  # a rebuild reads the files as they are now
        there = sum(1 for name in names if name <= read.last)
        if there < read.count:
            raise SourceChanged(
                f"{self.settings.path}: {read.count - there} of the {read.count} files that were read up to {read.last}"
                " are gone, so the pipeline cannot be built again from them: put them back"
            )

    def check_rebuilt(self, former: Offsets, rebuilt: Offsets) -> None:
        """Check that a rebuild has read all files that were read before; see `Source.check_rebuilt`."""
        old, new = _Read.of(former), _Read.of(rebuilt) if rebuilt else _NOTHING
        names = self.names(read=True)
        further = sum(1 for name in names if new.newest and old.last < name <= new.last)
        if (missing := old.count - (new.count - further)) > 0:
            raise SourceChanged(
                f"{self.settings.path}: {missing} of the {old.count} files that were read up to {old.last} were gone"
                " before the rebuild read them, so the old tables stay: put them back, give the rebuild up with"
                " `headwater rebuild --cancel`, and begin again"
            )

    def _fitting(self, waiting: list[str]) -> list[str]:
        """The first of these files that make an epoch within the limits; the very first one in any case."""
        names, limit = waiting[: self.settings.most_files], self.settings.limit
        if len(names) <= 1 or limit == EpochSize():
            return names
        total = EpochSize(0, 0)
        for at, name in enumerate(names):
            size = self.measure(Path(self.settings.path, name))
            if size is None:
                return names[: max(at, 1)]
            total = total.plus(size)
            if at and total.exceeds(limit):
                return names[:at]
        return names

    def end(self) -> Offsets | None:
        """The offsets after all present files; None if there are none."""
        names = self.names()
        newest = {name: self.size(name) for name in names[-_REMEMBERED:]}
        return _Read(names[0], len(names) - len(newest), {}).and_then(newest, names) if names else None

    def waiting(self, after: Offsets | None) -> int:
        """The number of files after the offsets."""
        return sum(1 for name in self.names(read=bool(after)) if not after or name > _Read.of(after).last)

    def files(self, offsets: OffsetRange) -> list[Path]:
        """The files of a range, in order.

        Raises:
            SourceChanged: a file is missing, or has another size than when it was planned.
        """
        planned = _planned(offsets)
        for name, size in planned.items():
            self.check_size(name, size)
        return [Path(self.settings.path, name) for name in planned]

    @staticmethod
    def size_of(offsets: OffsetRange) -> int:
        """The size of the files of a range, in bytes, as they were planned; no file is looked up."""
        return sum(_planned(offsets).values())

    def names(self, *, read: bool = False) -> list[str]:
        """The names of the present files, in order.

        Args:
            read: whether files of the directory have been read, so that it is only away if it is not there.

        Raises:
            ConfigError: there is no such directory, and none of its files has been read; or it is a table's; or this
                process cannot read the name of a file.
            BadInput: the name of a file is not UTF-8.
            SourceUnavailable: it cannot be listed.
        """
        try:
            with os.scandir(self.settings.path) as scanned:
                entries = list(scanned)
                visible = [each for each in entries if not each.name.startswith(("_", ".")) and each.is_file()]
        except (FileNotFoundError, NotADirectoryError) as error:
            if read:
                raise away(self.settings.path) from error
            raise ConfigError(f"{self.settings.path} {_fault(self.settings.path)}") from error
        except OSError as error:
            raise SourceUnavailable(
                f"cannot list {self.settings.path}: {error.strerror}; check its permissions"
            ) from error
        if self.format == "parquet":
            check_no_table(self.settings.path, [each.name for each in entries])
        names = sorted(each.name for each in visible)
        endings = ENDINGS[self.format]
        if others := [name for name in names if not name.endswith((*endings, INCOMPLETE))]:
            self.pass_over(others)
        found = [name for name in names if name.endswith(endings)]
        if name_fault("/".join(found)):
            self._refuse_names(found)
        return found

    def _refuse_names(self, names: Sequence[str]) -> NoReturn:
        strange, fault = next((name, fault) for name in names if (fault := name_fault(name)))
        kind = BadInput if sys.getfilesystemencoding() == "utf-8" else ConfigError
        raise kind(f"{self.settings.path}: the name of file {strange!r} {fault}")

    def size(self, name: str) -> int:
        """The size of a file, in bytes.

        Raises:
            SourceChanged: it is missing.
            SourceUnavailable: it cannot be reached.
        """
        if (size := self._find_size(name)) is None:
            raise SourceChanged(f"{self.settings.path}: file {name} was removed before it was read; put it back")
        return size

    def _find_size(self, name: str) -> int | None:
        """The size of a file, in bytes; None if it is missing, and its directory is there."""
        try:
            return Path(self.settings.path, name).stat().st_size
        except FileNotFoundError:
            check_not_away(Path(self.settings.path))
            return None
        except OSError as error:
            raise SourceUnavailable(f"cannot read {name} in {self.settings.path}: {error.strerror}") from error

    def _check(self, read: _Read, names: list[str]) -> None:
        """Check the files up to the last name read against the offsets."""
        self._check_names(read, names)
        recent = names[bisect_left(names, next(iter(read.newest))) : bisect_right(names, read.last)]
        for name in recent:
            # A file that has been read may be removed at any time: also after it was listed.
            if (size := self._find_size(name)) is not None:
                self._check_same(name, read.newest[name], size)

    def _check_names(self, read: _Read, names: list[str]) -> None:
        self.check_none_late(read.find_late(names, self._last), read.last)
        self._last.remember(read.last, names)

    def check_none_late(self, late: list[str], last: str) -> None:
        """Check that no file came among those that were read.

        Args:
            late: the names among which is one that did.
            last: the last name read.

        Raises:
            SourceChanged: there are such names.
        """
        if late:
            which = f"file {late[0]}" if len(late) == 1 else f"one of the files from {late[0]} to {late[-1]}"
            raise SourceChanged(f"{self.settings.path}: {which} came after {last} had been read; {_ANEW}")

    def check_size(self, name: str, planned: int) -> None:
        """Check that a file has not changed since it was planned.

        Raises:
            SourceChanged: it is missing, or has another size.
            SourceUnavailable: it cannot be reached.
        """
        self._check_same(name, planned, self.size(name))

    def _check_same(self, name: str, planned: int, size: int) -> None:
        if size != planned:
            raise SourceChanged(
                f"{self.settings.path}: file {name} had {planned} bytes when it was planned and has {size} now;"
                f" files must not change. Put it back as it was; or, if it is right now, {_AGAIN}"
            )
