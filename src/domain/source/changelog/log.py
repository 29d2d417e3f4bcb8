"""The position of a change in its database's log, which distinguishes a duplicate from a second change.

MySQL and MariaDB number the rows of their binlog, and messages of Maxwell and Debezium contain these numbers. Other
databases do not number each row: in PostgreSQL all rows of a COPY may share one LSN, and Oracle's SCN belongs to a
transaction. Canal's messages have no positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from attrs import define

from .debezium import opened, row_number_of, source_of
from .log_name import name_log
from .maxwell import log_of, row_number
from .message import Message, Rows, as_object
from .settings import CANAL, DEBEZIUM, MAXWELL

LogPlace: TypeAlias = "tuple[str | None, int | None, int | None, int | None, int | None]"
"""Values of `LOG_COLUMNS`."""

_FILE = re.compile(r"(.*?)\.?([0-9]{1,18})")
_NUMERAL = re.compile(r"[0-9]{1,18}")
YEAR_10000 = 253_402_300_800_000
_SERVER = re.compile(r"(.+)[-:][0-9]+")


def _maxwell(message: Message) -> LogPlace:
    file, position = log_of(message)
    servers = (message.get("server_id"), server_of(message.get("gtid")))
    seconds = _whole(message.get("ts"))
    return _log_place(file, position, row_number(message), servers, None if seconds is None else seconds * 1000)


def _debezium(record: Message) -> LogPlace:
    message, _ = opened(record)
    source = source_of(message or {})
    servers = (source.get("name"), source.get("server_id"), server_of(source.get("gtid")))
    row = row_number_of(message or {})
    return _log_place(source.get("file"), source.get("pos"), row, servers, _whole(source.get("ts_ms")))


def _canal(message: Message) -> LogPlace:
    return _log_place(None, None, None, (), _whole(message.get("es")))


_READERS: Mapping[str, Callable[[Message], LogPlace]] = {MAXWELL: _maxwell, DEBEZIUM: _debezium, CANAL: _canal}
PLACED_FORMATS = (MAXWELL, DEBEZIUM)
"""The formats whose messages may have the position of a change in its log."""


def _log_place(
    file: object, position: object, row: object, servers: tuple[object, ...], committed: int | None
) -> LogPlace:
    base, number = numbered(file) if type(file) is str else (None, None)
    committed = committed if committed is None or committed < YEAR_10000 else None
    place = (number, _whole(position), _whole(row))
    if None in place:
        return (None, None, None, None, committed)
    return (name_log(base, *(each if type(each) in (int, str) else None for each in servers)), *place, committed)


@lru_cache(1024)
def numbered(file: str) -> tuple[str | None, int | None]:
    """The base name and the number of a log file: ``binlog`` and 9 of ``binlog.000009``."""
    parts = _FILE.fullmatch(file)
    return (parts[1], int(parts[2])) if parts else (None, None)


def server_of(gtid: object) -> str | None:
    """The server of a GTID: MySQL's ``uuid:9`` or ``uuid:tag:9``, MariaDB's ``domain-server-9``."""
    parts = _SERVER.fullmatch(gtid) if type(gtid) is str else None
    return parts[1] if parts else None


def _whole(value: object) -> int | None:
    """A whole number that is not negative, or such a number as text; None for all else."""
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    return int(value) if type(value) is str and _NUMERAL.fullmatch(value) else None


@define(eq=False)
class LogDecoder:
    """Makes rows with `LOG_COLUMNS`.

    Args:
        rows: the decoder that makes the rows.
        format: the format of the messages.
    """

    rows: Callable[[object], Rows]
    format: str

    def __call__(self, record: object) -> Rows:
        """The rows of a message. Raises the same errors as the decoder of its format."""
        if not (rows := self.rows(record)):
            return rows
        place: tuple[Any, ...] = _READERS[self.format](as_object(record, "message"))
        return [(kind, [*values, *place], alone) for kind, values, alone in rows]
