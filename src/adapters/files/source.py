"""What every engine's file source shares: planning, and the parts to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from ...domain.ports import StreamSource
from .listing import FilesSettings, Listing
from .splits import Split, splits

if TYPE_CHECKING:
    from ...domain.epoch import OffsetRange, Offsets
    from ...domain.schema import Schema
    from ...domain.source import RecordSpec


@define(eq=False)
class FileSource(StreamSource):
    """A directory as a stream; engines add `read`.

    Args:
        settings: where the files arrive.
        spec: what they hold.
    """

    settings: FilesSettings
    spec: RecordSpec
    schema: Schema = field(init=False)
    _listing: Listing = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema = self.spec.rows
        self._listing = Listing(self.settings, self.spec.format)

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next files, at most `files_per_epoch`; None if there are none.

        Raises:
            ConfigError: there is no such directory.
            SourceChanged: a file came behind the last one read, or one of the newest ones read has changed.
        """
        return self._listing.plan(after)

    def lag(self, after: Offsets | None) -> str:
        """The number of files waiting."""
        waiting = self._listing.waiting(after)
        return f"{waiting} file{'' if waiting == 1 else 's'}"

    def _splits(self, offsets: OffsetRange) -> list[Split]:
        return splits(self._listing.files(offsets), self.spec)
