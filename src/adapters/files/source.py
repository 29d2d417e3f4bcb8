"""What every engine's file source shares: planning, and the parts to read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ...domain.errors import NotSupported
from ...domain.ports import StreamSource
from ..letters import JsonLetters
from .letters import CsvLetters
from .listing import FilesSettings, Listing
from .splits import Split, splits

if TYPE_CHECKING:
    from collections.abc import Collection

    import narwhals as nw

    from ...domain.epoch import OffsetRange, Offsets
    from ...domain.schema import Schema
    from ...domain.source import RecordSpec
    from ..letters import ReadAgain


_log = logging.getLogger(__name__)
_SHOWN = 3


@define(eq=False)
class FileSource(StreamSource):
    """A directory as a stream; engines add `read` and `again`.

    Args:
        settings: where the files arrive.
        spec: what they hold.
    """

    settings: FilesSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    rereads: Collection[str] = field(init=False)
    _listing: Listing = field(init=False)
    _warned: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.rereads = self.spec.rows, self.spec.format, self.spec.rereads
        self._listing = Listing(self.settings, self.spec.format, self._pass_over)

    def _pass_over(self, names: list[str]) -> None:
        """Say once of files that are not read for how their names end."""
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s: %d %s passed over (%s): format %s reads names that end in %s",
                self.settings.path,
                len(names),
                "file with another ending was" if len(names) == 1 else "files with other endings were",
                ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else ""),
                self.format,
                ", ".join(self._listing.endings),
            )

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next files, at most `files_per_epoch`; None if there are none.

        Raises:
            ConfigError: there is no such directory.
            SourceChanged: a file came behind the last one read, or one of the newest ones read has changed.
        """
        return self._listing.plan(after)

    def end(self) -> Offsets | None:
        """The files there are; None if there are none. Raises as `plan` does."""
        return self._listing.end()

    def lag(self, after: Offsets | None) -> str:
        """The number of files waiting."""
        waiting = self._listing.waiting(after)
        return f"{waiting} file{'' if waiting == 1 else 's'}"

    def _rereading(self, letters: nw.LazyFrame[Any]) -> ReadAgain:
        """What reads dead letters of these files again.

        Raises:
            NotSupported: the files are Parquet.
            SourceChanged: the CSV file of one is gone.
        """
        if self.spec.is_json:
            return JsonLetters(self.spec)
        if not self.spec.rereads:
            remedy = "bring what was wrong in a new file"
            raise NotSupported("reading dead letters again", f"a source of {self.format}", remedy)
        return CsvLetters.of(letters, self.spec, self.settings.path)

    def _splits(self, offsets: OffsetRange) -> list[Split]:
        return splits(self._listing.files(offsets), self.spec)
