"""The part of a file source that all engines share: planning, and the splits to read."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import narwhals as nw
from attrs import define, field

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import NotSupported
from ...domain.ports import Now, StreamSource
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import Schema
from ..records.dead_letters import JsonDeadLetters, ReadAgain
from .dead_letters import CsvDeadLetters
from .listing import FilesSettings, Listing, check_given
from .sizes import size_of
from .splits import Split, splits
from .unread import Unread


@define(eq=False)
class FileSource(StreamSource):
    """A directory as a stream; engines add `read` and `reread`."""

    settings: FilesSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    _listing: Listing = field(init=False)
    _unread: Unread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats
        measure = partial(size_of, spec=self.spec)
        self._unread = Unread(self.settings.path, self.spec.format)
        self._listing = Listing(self.settings, self.spec.format, self._unread.pass_over, measure)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The next files, as many as are waiting, up to the limits of the settings; None if there are none.

        A file is never split, and one that cannot be read is an epoch of its own.

        Raises:
            ConfigError: there is no such directory, and nothing has been read yet.
            SourceUnavailable: the directory is not there now, or cannot be listed.
            SourceChanged: a new file sorts before the last one read, or one of the last files read has changed.
        """
        found = self._listing.plan(after)
        if after is None:
            self._unread.warn_of_folders(beside_files=found is not None)
        return found

    def check_after(self, after: Offsets) -> None:
        self._listing.check(after)

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:  # noqa: ARG002 - all files are counted
        self._listing.check_complete(until)

    def check_rebuilt(self, former: OffsetRange, rebuilt: OffsetRange) -> None:
        self._listing.check_rebuilt(former.until, rebuilt.until)

    def start_at(self, given: Offsets) -> Offsets:
        check_given(given)
        return given

    def end(self) -> Offsets | None:
        """The offsets after all present files; None if there are none. Raises the same errors as `plan`."""
        return self._listing.end()

    def lag(self, after: Offsets | None) -> str:
        """The number of files waiting."""
        waiting = self._listing.waiting(after)
        return f"{waiting} file{'' if waiting == 1 else 's'}"

    def _rereading(self, letters: nw.LazyFrame[Any]) -> ReadAgain:
        """The reader of dead letters of these files.

        Raises:
            NotSupported: the files are Parquet.
            SourceChanged: the CSV file of a dead letter is missing.
        """
        if self.spec.is_json:
            return JsonDeadLetters(self.spec)
        if not self.spec.reread_formats:
            remedy = "write the corrected records to a new file"
            raise NotSupported("reading dead letters again", f"a source of {self.format}", remedy)
        return CsvDeadLetters.of(letters, self.spec, self.settings.path)

    def _splits(self, offsets: OffsetRange) -> list[Split]:
        return splits(self._listing.files(offsets), self.spec)
