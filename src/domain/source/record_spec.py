"""How a source's records are decoded into rows."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import field, frozen

from ..epoch.batch import ABSENT
from ..errors import ConfigError
from ..table.row_kind import PAIRED_ROW_KINDS, ROW_KINDS, RowKinds
from ..table.schema import Schema, column
from .changelog.log_columns import LOG_COLUMNS
from .changelog.settings import CHANGE_FORMATS, DEBEZIUM, MAXWELL, NONE, ORDERED, ChangeSpec
from .csv_format import RFC_4180, CsvFormat
from .transactions import TRANSACTION_COLUMNS

PLAIN_FORMATS = ("json", "csv", "parquet")
JSON_FORMATS = ("json", *CHANGE_FORMATS)
FORMATS = (*PLAIN_FORMATS, *CHANGE_FORMATS)
TEXT, AVRO, PROTOBUF = "text", "avro", "protobuf"
"""The encodings of records: the text of their format, or bytes that are parsed with a schema from a registry."""
REGISTRY_FORMATS = {
    "avro": ("json", AVRO),
    "debezium-avro": (DEBEZIUM, AVRO),
    "protobuf": ("json", PROTOBUF),
    "debezium-protobuf": (DEBEZIUM, PROTOBUF),
}
"""Formats whose records need the schema of a registry: the JSON format they have once parsed, and their encoding."""
LINES, ARRAY = "lines", "array"
LAYOUTS = (LINES, ARRAY)
"""How the records of a JSON file lie in it."""
READ, WARN, REFUSE = "read", "warn", "refuse"
"""What is done about a compacted topic."""


@frozen
class RecordSpec:
    """The format and the columns of a source's records.

    Args:
        schema: the declared columns, including the row-kind column.
        format: one of `FORMATS`.
        row_kind: the column with the row kind of a record (see `row_kinds`); None for plain events, each of which is an
            insert.
        time_zone: IANA zone of timestamps without an offset.
        changes: how messages are decoded, if the format is one of `CHANGE_FORMATS`.
        tells_absent: whether rows list in `ABSENT` the columns that are missing in their record or were sent as
            unavailable; those columns are null. Only for JSON: other formats have every column.
        csv: how CSV is written.
        encoding: of the records. If it is not ``text``, `format` and it are one of the values of `REGISTRY_FORMATS`.
        layout: of JSON files: a record in each line (``lines``), or one ``array`` of records.
        tells_log: whether rows have `LOG_COLUMNS`, the position of a change in its log. Only for changelogs, and not
            together with `tells_transactions`.
        needs_whole_rows: whether a delete without its whole old image is an error, because the service subtracts it.
            Only Debezium's deletes may lack a part of it, and only if `ChangeSpec.before` is ``required``.
        needs_old_rows: whether an update without its old row is an error, because the service subtracts that row: the
            words of a row-kind column are `PAIRED_ROW_KINDS`.
        needs_commit_order: whether a message is an error if its `log_position` does not increase in the order of the
            commits.
        optional: columns that may be missing in CSV and Parquet files; they are null then. In JSON any column may be
            missing.
        tells_transactions: whether rows have `TRANSACTION_COLUMNS`, and some rows are marks (`transactions.is_mark`).
            Only for changelogs whose `transactions` is not ``none``.
        compacted: what is done about a topic that is compacted, which lacks records that a later one with the same
            message key replaces: ``read`` it; ``warn``, because the key must be the right one; or ``refuse`` it,
            because the service needs each record.
    """

    schema: Schema
    format: str = "json"
    row_kind: str | None = None
    time_zone: str = "UTC"
    changes: ChangeSpec = field(factory=ChangeSpec)
    tells_absent: bool = False
    tells_transactions: bool = False
    tells_log: bool = False
    needs_whole_rows: bool = False
    needs_old_rows: bool = False
    needs_commit_order: bool = False
    optional: tuple[str, ...] = ()
    csv: CsvFormat = RFC_4180
    layout: str = LINES
    encoding: str = TEXT
    compacted: str = READ

    def __attrs_post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigError(f"unknown format {self.format!r}; known: {', '.join(FORMATS)}")
        if self.format in CHANGE_FORMATS:
            self._check_changes()
        self._check_csv()
        self._check_abilities()
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

    def _check_csv(self) -> None:
        if (given := self.csv.settings) and self.format != "csv":
            raise ConfigError(f"{given} is for format csv; {self.format} has none")
        if self.format == "csv":
            self.csv.check(self.schema)

    def _check_abilities(self) -> None:
        if self.encoding != TEXT and (self.format, self.encoding) not in REGISTRY_FORMATS.values():
            known = ", ".join(REGISTRY_FORMATS)
            raise ConfigError(f"records of {self.format} have no encoding {self.encoding!r}; known: {known}")
        if self.layout not in LAYOUTS:
            raise ConfigError(f"unknown layout {self.layout!r}; known: {', '.join(LAYOUTS)}")
        if self.layout != LINES and not self.is_json:
            raise ConfigError(f"layout is for JSON; {self.format} has none")
        if self.tells_absent and not self.is_json:
            raise ConfigError(f"records of {self.format} have every column, so no column can be absent")
        if self.tells_transactions and self.transactions == NONE:
            raise ConfigError(f"records of {self.format} do not name their transaction")
        if self.tells_log and (self.format not in CHANGE_FORMATS or self.tells_transactions):
            raise ConfigError(f"records of {self.format} do not have a position in a log")

    def _check_changes(self) -> None:
        if self.row_kind:
            raise ConfigError(f"row_kind {self.row_kind!r}: {self.format} contains row kinds itself; leave the key out")
        self.changes.check(self.format, self.schema)

    @property
    def is_json(self) -> bool:
        """Whether each record is one JSON document, or is parsed into one."""
        return self.format in JSON_FORMATS

    @property
    def is_typed(self) -> bool:
        """Whether parsed records have values with the types of their schema in a registry: bytes are not Base64."""
        return self.encoding != TEXT

    @property
    def is_lines(self) -> bool:
        """Whether each line of a file is one record, so that files can be cut at any line."""
        return self.is_json and self.layout == LINES

    @property
    def reread_formats(self) -> tuple[str, ...]:
        """Formats of the dead letters that can be read again; see `StreamSource`."""
        if self.is_json:  # a dead letter has the whole record, whichever JSON format it had
            return JSON_FORMATS
        return ("csv",) if self.format == "csv" else ()

    @property
    def row_kinds(self) -> RowKinds:
        """The words of the row-kind column."""
        return PAIRED_ROW_KINDS if self.needs_old_rows else ROW_KINDS

    @property
    def columns(self) -> Schema:
        """The columns that rows take from their records: all except the row kind, which becomes `_row_kind`."""
        return self.schema.without([self.row_kind] if self.row_kind else [])

    @property
    def transactions(self) -> str:
        """How the end of a transaction is recognised: ``ordered``, ``counted`` or ``none``; see `ChangeSpec`."""
        if self.format not in CHANGE_FORMATS:
            return NONE
        return self.changes.transactions or (ORDERED if self.format == MAXWELL else NONE)

    @property
    def rows(self) -> Schema:
        """All columns of the rows, without `BATCH_COLUMNS`."""
        absent = {ABSENT: "string"} if self.tells_absent else {}
        transactions = TRANSACTION_COLUMNS if self.tells_transactions else {}
        log = LOG_COLUMNS if self.tells_log else {}
        return self.columns.plus(*(column(name, ddl) for name, ddl in {**absent, **log, **transactions}.items()))
