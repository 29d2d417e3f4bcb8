"""The decoder of records that are rows: a parsed record becomes a row kind and typed values."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from attrs import define, field

from ..table.row_kind import INSERT
from .changelog.values import with_time_unit
from .conversion import Convert, ToJson, Undecodable, shown
from .decode import ONE_OBJECT, converters, from_json, from_text
from .presence import Presence
from .record_spec import RecordSpec

_ENVELOPE = frozenset({"schema", "payload"})


def is_enveloped(fields: AbstractSet[Any], spec: RecordSpec) -> bool:
    """Whether a record with these fields is an envelope of Kafka Connect, and the row is inside."""
    return fields == _ENVELOPE and _ENVELOPE.isdisjoint(spec.schema.names)


@define(eq=False)
class RowDecoder:
    """Makes rows from parsed records.

    JSON values: numbers with a fraction are `Decimal` (or float, if exact digits do not matter), all others are as the
    `json` module gives them; if `RecordSpec.is_typed`, bytes are bytes. CSV values: text, and None for an empty field
    without quotes.
    """

    spec: RecordSpec
    to_json: ToJson
    _columns: tuple[tuple[str, Convert], ...] = field(init=False)
    _presence: Presence | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        written = from_text if self.spec.format == "csv" else from_json
        unit = self.spec.changes.time_unit
        self._columns = converters(
            self.spec.columns,
            zone=self.spec.time_zone,
            to_json=self.to_json,
            written=with_time_unit(unit, written) if unit else written,
            typed=self.spec.is_typed,
        )
        self._presence = Presence(self.spec.columns.names) if self.spec.tells_absent else None

    def row(self, record: object) -> tuple[str, list[Any]]:
        """The row kind of a record and its values, in the order of `RecordSpec.rows`; missing values are null.

        Raises:
            Undecodable: the message has the column, its type and the value.
        """
        if type(record) is not dict:
            hint = f"; {ONE_OBJECT}" if type(record) is list else ""
            raise Undecodable(f"a JSON object wanted, not {shown(record)}{hint}")
        if is_enveloped(record.keys(), self.spec):
            raise Undecodable(
                "a record of Kafka Connect with its schema: set value.converter.schemas.enable=false there, or declare"
                " the column payload as a struct"
            )
        return self.kind(record) if self.spec.row_kind else INSERT, self.values(record)

    def values(self, fields: Mapping[str, Any]) -> list[Any]:
        """The typed values of a record's fields, in the order of `RecordSpec.rows`."""
        if self._presence:
            fields = self._presence.available(fields)
        get = fields.get
        values = [None if (value := get(name)) is None else convert(value) for name, convert in self._columns]
        return [*values, self._presence.absent(fields)] if self._presence else values

    def kind(self, fields: Mapping[str, Any]) -> str:
        """The row kind in the row-kind column.

        Raises:
            Undecodable: it is not a row kind.
        """
        word = fields.get(self.spec.row_kind or "")
        if (kind := self.spec.row_kinds.of(word)) is None:
            raise Undecodable(self.spec.row_kinds.refusal(self.spec.row_kind) + shown(word))
        return kind
