"""How records of a source are read into rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import field, frozen

from .changelog.log import LOG_COLUMNS
from .changelog.settings import CHANGE_FORMATS, MAXWELL, NONE, ORDERED, ChangeSpec
from .csv_text import COMMA
from .epoch import ABSENT
from .errors import ConfigError
from .schema import column
from .transactions import TRANSACTION_COLUMNS

if TYPE_CHECKING:
    from .schema import Schema

PLAIN_FORMATS = ("json", "csv", "parquet")
JSON_FORMATS = ("json", *CHANGE_FORMATS)
FORMATS = (*PLAIN_FORMATS, *CHANGE_FORMATS)
_DELIMITER = r"[\t!#-/:-@\[-`{-~ ]"


@frozen
class RecordSpec:
    """What a source's records hold.

    Args:
        schema: the declared columns, the row-kind column among them.
        format: one of `FORMATS`.
        row_kind: the column that says what a record does (``+I -U +U -D``, or Debezium's ``c r u d``); None for plain
            events, each an insert.
        time_zone: IANA zone of timestamps that come without one.
        changes: how messages are read whose format is one of `CHANGE_FORMATS`.
        tells_absent: whether rows say in `ABSENT` which columns their record did not carry, or carried as unavailable;
            those are null. Of JSON alone: elsewhere every column is there.
        delimiter: of CSV, the character between fields.
        tells_log: whether rows say in `LOG_COLUMNS` where in its log a change stands. Of changelogs alone, and not
            together with `tells_transactions`.
        optional: columns that typed files (CSV, Parquet) may lack; they are null then. In JSON every column may be.
        tells_transactions: whether rows say in `TRANSACTION_COLUMNS` which transaction they are of, and marks stand
            among them (`transactions.is_mark`). Of changelogs alone whose `transactions` is not ``none``.
    """

    schema: Schema
    format: str = "json"
    row_kind: str | None = None
    time_zone: str = "UTC"
    changes: ChangeSpec = field(factory=ChangeSpec)
    tells_absent: bool = False
    tells_transactions: bool = False
    tells_log: bool = False
    optional: tuple[str, ...] = ()
    delimiter: str = COMMA

    def __attrs_post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigError(f"unknown format {self.format!r}; known: {', '.join(FORMATS)}")
        if self.format in CHANGE_FORMATS:
            self._check_changes()
        self._check_delimiter()
        if self.tells_absent and not self.is_json:
            raise ConfigError(f"records of {self.format} carry every column, so none can be told to be absent")
        if self.tells_transactions and self.transactions == NONE:
            raise ConfigError(f"records of {self.format} do not say which transaction they are of")
        if self.tells_log and (self.format not in CHANGE_FORMATS or self.tells_transactions):
            raise ConfigError(f"records of {self.format} do not say where in a log they stand")
        if self.row_kind and self.schema[self.row_kind].name != "string":
            raise ConfigError(
                f"row_kind column {self.row_kind!r} must be a string, not {self.schema[self.row_kind].ddl}"
            )
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(
                f"unknown time_zone {self.time_zone!r}; write an IANA name such as 'Europe/Berlin'"
            ) from error

    def _check_delimiter(self) -> None:
        if not re.fullmatch(_DELIMITER, self.delimiter):
            raise ConfigError(f"delimiter {self.delimiter!r} must be one ASCII character such as ';' or a tab")
        if self.delimiter != COMMA and self.format != "csv":
            raise ConfigError(f"delimiter is for format csv; {self.format} has none")

    def _check_changes(self) -> None:
        if self.row_kind:
            raise ConfigError(f"row_kind {self.row_kind!r}: {self.format} tells row kinds itself; leave the key out")
        self.changes.check(self.format, self.schema)

    @property
    def is_json(self) -> bool:
        """Whether each record is one JSON document."""
        return self.format in JSON_FORMATS

    @property
    def rereads(self) -> tuple[str, ...]:
        """Formats of the dead letters that records like these can be read from once more; see `StreamSource`."""
        if self.is_json:  # the letter has the whole record, whatever JSON it was taken for
            return JSON_FORMATS
        return ("csv",) if self.format == "csv" else ()

    @property
    def columns(self) -> Schema:
        """The columns that rows take from their records: all but the row kind, which becomes `_row_kind`."""
        return self.schema.without([self.row_kind] if self.row_kind else [])

    @property
    def transactions(self) -> str:
        """How it is told that a transaction has been seen whole; see `ChangeSpec`."""
        if self.format not in CHANGE_FORMATS:
            return NONE
        return self.changes.transactions or (ORDERED if self.format == MAXWELL else NONE)

    @property
    def rows(self) -> Schema:
        """The columns of the rows."""
        absent = {ABSENT: "string"} if self.tells_absent else {}
        transactions = TRANSACTION_COLUMNS if self.tells_transactions else {}
        log = LOG_COLUMNS if self.tells_log else {}
        return self.columns.plus(*(column(name, ddl) for name, ddl in {**absent, **log, **transactions}.items()))
