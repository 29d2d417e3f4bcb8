"""Where a change stands in its database's log, as its message says: what tells a repeat from a second change.

MySQL and MariaDB number the rows of their binlog, and Maxwell and Debezium pass that on. Other databases have no number
of each row: in PostgreSQL all rows of a COPY may share one LSN, and an SCN of Oracle is that of a transaction. Canal
leaves positions out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define

from .debezium import opened, row_number_of, source_of
from .images import as_object
from .maxwell import log_of, row_number
from .settings import CANAL, DEBEZIUM, MAXWELL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .images import Message, Rows

    Told: TypeAlias = "tuple[str | None, int | None, int | None, int | None, int | None]"
    """Values of `LOG_COLUMNS`."""

LOG, LOG_FILE, LOG_POSITION, LOG_ROW, COMMITTED = "_log", "_log_file", "_log_position", "_log_row", "_committed"
LOG_COLUMNS = {LOG: "string", LOG_FILE: "bigint", LOG_POSITION: "bigint", LOG_ROW: "bigint", COMMITTED: "bigint"}
"""What rows have beside their own columns where the source tells their place in a log (`RecordSpec.tells_log`):

* ``_log`` string: which log it is: the base name of its files, and the server, as far as the message names them;
* ``_log_file`` bigint: the number of the file;
* ``_log_position`` bigint: the position in the file;
* ``_log_row`` bigint: the number of the row at that position; both images of an update share it;
* ``_committed`` bigint: the commit time, in milliseconds since 1970.

All but the last are null where the message does not say all of file, position and row.
"""

IN_LOG = (LOG_FILE, LOG_POSITION, LOG_ROW)
"""The columns that order the rows of a log."""

_FILE = re.compile(r"(.*?)\.?([0-9]{1,18})")
_NUMERAL = re.compile(r"[0-9]{1,18}")
_YEAR_10000 = 253_402_300_800_000
_SERVER = re.compile(r"(.+)[-:][0-9]+")


def _maxwell(message: Message) -> Told:
    file, position = log_of(message)
    servers = (message.get("server_id"), _server(message.get("gtid")))
    seconds = _whole(message.get("ts"))
    return _told(file, position, row_number(message), servers, None if seconds is None else seconds * 1000)


def _debezium(record: Message) -> Told:
    message, _ = opened(record)
    source = source_of(message or {})
    servers = (source.get("name"), source.get("server_id"), _server(source.get("gtid")))
    row = row_number_of(message or {})
    return _told(source.get("file"), source.get("pos"), row, servers, _whole(source.get("ts_ms")))


def _canal(message: Message) -> Told:
    return _told(None, None, None, (), _whole(message.get("es")))


_TOLD: Mapping[str, Callable[[Message], Told]] = {MAXWELL: _maxwell, DEBEZIUM: _debezium, CANAL: _canal}
PLACED_FORMATS = (MAXWELL, DEBEZIUM)
"""The formats whose messages may say where in a log a change stands."""


def _told(file: object, position: object, row: object, servers: tuple[object, ...], committed: int | None) -> Told:
    base, number = _numbered(file) if type(file) is str else (None, None)
    committed = committed if committed is None or committed < _YEAR_10000 else None
    place = (number, _whole(position), _whole(row))
    if None in place:
        return (None, None, None, None, committed)
    return (_named(base, *(each if type(each) in (int, str) else None for each in servers)), *place, committed)


@lru_cache(64)
def _named(*parts: str | int | None) -> str:
    """What a log is called: the parts of its name that are known."""
    return " ".join(str(each) for each in parts if each not in (None, ""))


@lru_cache(1024)
def _numbered(file: str) -> tuple[str | None, int | None]:
    """The base name and the number of a log file: ``binlog`` and 9 of ``binlog.000009``."""
    parts = _FILE.fullmatch(file)
    return (parts[1], int(parts[2])) if parts else (None, None)


def _server(gtid: object) -> str | None:
    """The server of a GTID: MySQL's ``uuid:9`` or ``uuid:tag:9``, MariaDB's ``domain-server-9``."""
    parts = _SERVER.fullmatch(gtid) if type(gtid) is str else None
    return parts[1] if parts else None


def _whole(value: object) -> int | None:
    """A whole number that is not negative, also where it is written as text."""
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    return int(value) if type(value) is str and _NUMERAL.fullmatch(value) else None


@define(eq=False)
class LogDecoder:
    """Makes rows that tell their place in a log.

    Args:
        rows: makes the rows.
        format: of the messages.
    """

    rows: Callable[[object], Rows]
    format: str

    def __call__(self, record: object) -> Rows:
        """The rows of a message. Raises as the decoder of its format does."""
        if not (rows := self.rows(record)):
            return rows
        told: tuple[Any, ...] = _TOLD[self.format](as_object(record, "message"))
        return [(kind, [*values, *told], alone) for kind, values, alone in rows]
