"""The decoder of each format: a parsed record in, rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..decode import RowDecoder
from .canal import CanalDecoder
from .debezium import DebeziumDecoder
from .maxwell import MaxwellDecoder
from .settings import CANAL, DEBEZIUM, MAXWELL

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..decode import ToJson
    from ..source import RecordSpec
    from .images import Rows

_DECODERS: dict[str, Callable[[RecordSpec, ToJson], Callable[[object], Rows]]] = {
    MAXWELL: MaxwellDecoder,
    DEBEZIUM: DebeziumDecoder,
    CANAL: CanalDecoder,
}


def decoder(spec: RecordSpec, to_json: ToJson) -> Callable[[object], Rows]:
    """Makes rows of parsed records, or raises `Undecodable`; of an update the old image, then the new one.

    Args:
        spec: what the records hold.
        to_json: writes a JSON value as text.
    """
    return _DECODERS.get(spec.format, _plain)(spec, to_json)


def _plain(spec: RecordSpec, to_json: ToJson) -> Callable[[object], Rows]:
    row = RowDecoder(spec, to_json).row

    def rows(record: object) -> Rows:
        kind, values = row(record)
        return ((kind, values, None),)

    return rows
