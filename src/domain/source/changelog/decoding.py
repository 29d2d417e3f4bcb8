"""The decoder of each format: it makes rows from a parsed record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..conversion import ToJson
from ..record_spec import RecordSpec
from ..row_decoder import RowDecoder
from ..transactions import TRANSACTION_COLUMNS
from .canal import CanalDecoder
from .debezium import DebeziumDecoder
from .images import ChangeDecoder
from .log import LogDecoder
from .maxwell import MaxwellDecoder
from .message import Rows
from .settings import CANAL, DEBEZIUM, MAXWELL
from .transactions import TransactionDecoder, TransactionReader

_DECODERS: dict[str, Callable[[RecordSpec, ToJson, Counter[str]], ChangeDecoder]] = {
    MAXWELL: MaxwellDecoder,
    DEBEZIUM: DebeziumDecoder,
    CANAL: CanalDecoder,
}


def decoder(spec: RecordSpec, to_json: ToJson, passed_over: Counter[str]) -> Callable[[object], Rows]:
    """A function that makes rows from a parsed record, or raises `Undecodable`. An update's old image comes first.

    Args:
        spec: the format and the columns of the records.
        to_json: writes a JSON value as text.
        passed_over: counts the messages of tables that are not read; see `Tables`.
    """
    if spec.format not in _DECODERS:
        return _plain(spec, to_json)
    rows = _DECODERS[spec.format](spec, to_json, passed_over)
    if spec.tells_log:
        return LogDecoder(rows, spec.format)
    return TransactionDecoder(rows, TransactionReader(spec, to_json)) if spec.tells_transactions else rows


def of_nothing(spec: RecordSpec, to_json: ToJson) -> Callable[[object], list[Any]]:
    """A function that makes the values of an undecodable record: nulls, and the record's transaction columns, if any.

    That function raises `Undecodable` if the transaction cannot be read either.
    """
    nulls: list[Any] = [None] * len(spec.rows.columns)
    if not spec.tells_transactions:
        return lambda _record: nulls
    read, own = TransactionReader(spec, to_json), len(nulls) - len(TRANSACTION_COLUMNS)
    return lambda record: [*nulls[:own], *read(record)]


def _plain(spec: RecordSpec, to_json: ToJson) -> Callable[[object], Rows]:
    row = RowDecoder(spec, to_json).row

    def rows(record: object) -> Rows:
        kind, values = row(record)
        return ((kind, values, None),)

    return rows
