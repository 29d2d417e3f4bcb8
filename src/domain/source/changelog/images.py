"""What the decoders of all formats share: row images, from the columns of a row and the metadata of its message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import define, field

from ..conversion import Choose, Convert, ToJson
from ..decode import converters
from ..presence import Presence
from ..record_spec import RecordSpec
from .message import Message, Read, Rows
from .tables import Tables
from .values import instants, written


@define(eq=False)
class Images:
    """Makes row images for one spec.

    Args:
        spec: the format and the columns of the messages.
        to_json: writes a JSON value as text.
        written: how values are written.
        says: by metadata name, the function that reads it from a message.
        unit: the unit of the commit time.
    """

    spec: RecordSpec
    to_json: ToJson
    written: Choose
    says: Mapping[str, Read]
    unit: str
    presence: Presence | None = field(init=False)
    _columns: tuple[tuple[Any, Convert], ...] = field(init=False)
    _places: dict[str, tuple[int, Convert]] = field(init=False)
    _metadata: tuple[tuple[int, Read, Convert], ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        added = self.spec.changes.metadata
        compiled = converters(
            self.spec.columns,
            zone=self.spec.time_zone,
            to_json=self.to_json,
            written=self.written,
            typed=self.spec.is_typed,
        )
        # No field has the name None, so metadata columns are null until they are filled.
        self._columns = tuple((None if name in added else name, convert) for name, convert in compiled)
        self._places = {name: (at, convert) for at, (name, convert) in enumerate(compiled) if name not in added}
        times = instants(self.unit)
        reading = converters(
            self.spec.schema.select(added),
            zone="UTC",
            to_json=self.to_json,
            written=lambda column: times if column.type.name == "timestamp" else written(column),
        )
        names = self.spec.columns.names
        self.presence = Presence(tuple(self._places)) if self.spec.tells_absent else None
        self._metadata = tuple((names.index(name), self.says[added[name]], convert) for name, convert in reading)

    @property
    def names(self) -> frozenset[str]:
        """The columns that come from the row."""
        return frozenset(self._places)

    def image(self, fields: Message, message: Message, row: int = 0) -> list[Any]:
        """The values of a row.

        Args:
            fields: the fields by column name; missing fields are null.
            message: the message of the row.
            row: the row's number in the message.
        """
        get = fields.get
        values = [None if (value := get(name)) is None else convert(value) for name, convert in self._columns]
        for at, read, convert in self._metadata:
            values[at] = None if (value := read(message, row)) is None else convert(value)
        if self.presence:
            values.append(self.presence.absent(fields))
        return values

    def metadata(self, message: Message) -> list[Any]:
        """The values of a row with only the message's metadata; all other columns are null."""
        return self.image({}, message)

    def overlaid(self, image: list[Any], old: Message) -> list[Any]:
        """The image before a change: `image` with the values in `old`, nulls included."""
        values = image.copy()
        for name, value in old.items():
            if place := self._places.get(name):
                at, convert = place
                values[at] = None if value is None else convert(value)
        return values


@define(eq=False)
class ChangeDecoder(ABC):
    """Makes rows from the messages of one format."""

    spec: RecordSpec
    to_json: ToJson
    passed_over: Counter[str] = field(factory=Counter)
    _tables: Tables = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tables = Tables(self.spec.changes.tables, self.passed_over)

    @abstractmethod
    def __call__(self, record: object) -> Rows:
        """The rows of a message.

        Raises:
            Undecodable: it is not a message of this format, or a value does not fit its column.
        """

    @abstractmethod
    def metadata(self, message: Message) -> list[Any]:
        """The values of a row with only the message's metadata."""
