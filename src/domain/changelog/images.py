"""Row images out of messages: the columns of a row, and what the message says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field

from ..decode import Presence, Undecodable, converters, shown
from .values import instants, written

if TYPE_CHECKING:
    from ..decode import Choose, Convert, ToJson
    from ..source import RecordSpec

Message: TypeAlias = Mapping[str, Any]
"""A parsed JSON object."""

Read: TypeAlias = Callable[[Message, int], Any]
"""A message, and the number of a row in it -> what it says of that row, as JSON has it."""

Row: TypeAlias = tuple[str | None, list[Any], Message | None]
"""Row kind, None of a mark (`domain.transactions`); values in the order of `RecordSpec.rows`; of a message with several
rows, what it would say of one alone."""

Rows: TypeAlias = Sequence[Row]

NO_ROWS: Rows = ()
EMPTIED = "the table was emptied, and no row told which: build the pipeline anew"


def as_object(value: object, what: str) -> dict[str, Any]:
    """A part of a message that must be an object.

    Raises:
        Undecodable: it is none.
    """
    if type(value) is not dict:
        raise Undecodable(f"{what}: a JSON object wanted, not {shown(value)}")
    return value


@define(eq=False)
class Images:
    """Makes the images of one spec's rows.

    Args:
        spec: what the messages hold.
        to_json: writes a JSON value as text.
        written: how values are written.
        says: by name of the metadata, where a message has it.
        unit: of the commit time.
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
        compiled = converters(self.spec.columns, zone=self.spec.time_zone, to_json=self.to_json, written=self.written)
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
            fields: by column; what is absent is null.
            message: that they came in.
            row: its number in the message.
        """
        get = fields.get
        values = [None if (value := get(name)) is None else convert(value) for name, convert in self._columns]
        for at, read, convert in self._metadata:
            values[at] = None if (value := read(message, row)) is None else convert(value)
        if self.presence:
            values.append(self.presence.absent(fields))
        return values

    def metadata(self, message: Message) -> list[Any]:
        """The values of a row that the message has none of: what it says of itself, else nulls."""
        return self.image({}, message)

    def overlaid(self, image: list[Any], old: Message) -> list[Any]:
        """The image before a change: what `old` names had the value it says, null too; all else is as it was."""
        values = image.copy()
        for name, value in old.items():
            if place := self._places.get(name):
                at, convert = place
                values[at] = None if value is None else convert(value)
        return values
