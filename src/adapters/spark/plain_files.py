"""Plain CSV and JSON files as Spark frames. A line that cannot be read stops the job: Spark would guess its values."""

from __future__ import annotations

import json
import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from ...domain.errors import ConfigError
from ...domain.source.conversion import Undecodable
from ..records.csv import header_fields, records
from ..records.shapes.chunk import BLANKS, BYTE_ORDER_MARK
from ..shared.plain_faults import explain_case
from ..shared.utf8 import LONE_SURROGATE
from .schema import quoted
from .sums import text

_MARK = "headwater-plain:"
_REFUSED = re.compile(rf"(?:^|(?:Exception|Error): (?:\[\w+\] )?){_MARK}([^\n]*)")
_HEADER = re.compile(r"CSV header[^\n]*:?\n(.*?)\n?CSV file: (\S[^\n]*)", re.DOTALL)
_NOT_CLOSED = (
    "has quotes that are not closed, or its last field ends with a line break; close the quotes, or write another"
    " column last"
)
_REPLACED = "\ufffd"
_NOT_UTF8 = (
    f"has the sign {_REPLACED}, which Spark reads for bytes that are not UTF-8; convert the file to UTF-8 (a compressed"
    " one must end in .gz or .zst), or remove the sign"
)
_MOST_HEADER_LINES = 1000
"""The largest number of lines that are read in search of a header, whose quotes may hold line breaks."""
_QUOTE = "Unescaped quote character"
_UNREAD = "_headwater_unread"
_EMPTY = "\ue000headwater-empty\ue000"
"""What Spark reads for an empty text in quotes, which would be null like an empty field without quotes."""
_BLANKS = text(BLANKS)
_TEXT = spark_types.StringType()
_RETURN = "\r"
_CSV = {
    "header": "true",
    "columnNameOfCorruptRecord": _UNREAD,
    "emptyValue": _EMPTY,
    "enforceSchema": "false",  # each file's header is compared with the first one's
    "escape": '"',
    "lineSep": "\n",  # if Spark finds it out, it also replaces those inside quotes
    "multiLine": "true",
    "unescapedQuoteHandling": "RAISE_ERROR",
}

_JSON = {"columnNameOfCorruptRecord": _UNREAD}
_CASE = "spark.sql.caseSensitive"


def read_csv(session: SparkSession, path: str) -> DataFrame:
    """The rows of CSV files with headers; every column is text, and null only if it is empty and has no quotes."""
    first = session.read.options(**_CSV).csv(path)
    names = list(first._jdf.queryExecution().analyzed().relation().dataSchema().fieldNames())
    declared = spark_types.StructType([*first.schema.fields, spark_types.StructField(_UNREAD, _TEXT)])
    rows = session.read.options(**_CSV).schema(declared).csv(path)
    if not names:
        return first
    _check_header(session, path, names)
    values = (_csv_value(each, is_last=each == names[-1]) if each in names else quoted(each) for each in first.columns)
    return rows.where(_is_csv_row(names)).selectExpr(*values)


def _check_header(session: SparkSession, path: str, names: list[str]) -> None:
    """Check that a header is UTF-8 without NUL bytes, and that its carriage returns are at its end or inside quotes.

    Raises:
        ConfigError: it is not.
    """
    if any(re.search(r"\r(?!\n|\Z)|\0", name) for name in names):
        try:
            header_fields(_first_record(session, path))
        except Undecodable as error:
            raise ConfigError(f"{path}: {error}") from error
    if any(_REPLACED in name for name in names):
        raise ConfigError(f"{path}: the header {_NOT_UTF8}")


def _first_record(session: SparkSession, path: str) -> bytes:
    """The bytes of the first record that is not blank, without a byte order mark."""
    lines = session.read.text(path, lineSep="\n").select(F.col("value").cast("binary")).head(_MOST_HEADER_LINES)
    texts = (bytes(line[0]).removeprefix(BYTE_ORDER_MARK) + b"\n" for line in lines)
    return next((record for _, record in records(enumerate(texts))), b"")


def _is_csv_row(names: list[str]) -> str:
    """SQL that is true for a line with a row, and false for a blank line; another line stops the job."""
    last, unread = quoted(names[-1]), _UNREAD
    if len(names) == 1:  # a blank line is a value
        unread = f"coalesce({_UNREAD}, IF(trim(BOTH {_BLANKS} FROM {last}) = '', '', NULL))"
    replaced = " OR ".join(f"contains({quoted(name)}, '{_REPLACED}')" for name in names)
    return (
        f"CASE WHEN {replaced} THEN {_stop(quoted(names[0]), _NOT_UTF8)}"
        f" WHEN trim(BOTH {_BLANKS} FROM {unread}) = '' THEN false"
        f" WHEN {unread} IS NOT NULL THEN {_stop(unread, 'has more or fewer fields than the header; correct it')}"
        # Spark ends a field without closing quotes where the file ends.
        f" WHEN endswith({last}, '\n') THEN {_stop(quoted(names[0]), _NOT_CLOSED)} ELSE true END"
    )


def read_json(session: SparkSession, path: str) -> DataFrame:
    """The rows of JSON files with one object per line; columns are sorted by name."""
    lines = session.read.text(path)
    inferred = _inferred(session, path)
    _check_case(inferred, lines)
    fields = [each for each in inferred.fields if each.name not in {_UNREAD, *lines.columns[1:]}]
    declared = spark_types.StructType([*fields, spark_types.StructField(_UNREAD, _TEXT)])
    line = f"trim(BOTH {text(BLANKS + BYTE_ORDER_MARK.decode())} FROM value)"
    rows = lines.selectExpr(f"{line} AS value", *map(quoted, lines.columns[1:])).where("value != ''")
    objects = rows.where(_IS_OBJECT)
    read = objects.withColumn("value", F.from_json("value", declared, _JSON))
    wrong = _stop(f"value.{_UNREAD}", "is not a JSON object of the types of the others; correct it")
    return read.where(f"IF(value.{_UNREAD} IS NULL, true, {wrong})").selectExpr(
        *(f"value.{quoted(each.name)} AS {quoted(each.name)}" for each in fields), *map(quoted, lines.columns[1:])
    )


def _inferred(session: SparkSession, path: str) -> spark_types.StructType:
    """The columns of JSON files; names that differ only in case are two, of which Spark would otherwise lose one."""
    former = str(session.conf.get(_CASE))
    session.conf.set(_CASE, "true")
    try:
        return session.read.options(**_JSON).json(path).schema
    finally:
        session.conf.set(_CASE, former)


def _check_case(kind: spark_types.DataType, lines: DataFrame) -> None:
    """Check that no names differ only in case.

    Raises:
        ConfigError: there are such names.
    """
    if isinstance(kind, spark_types.ArrayType):
        _check_case(kind.elementType, lines)
    if isinstance(kind, spark_types.StructType):
        by_case: dict[str, str] = {}
        for each in kind.fields:
            if (former := by_case.setdefault(each.name.lower(), each.name)) != each.name:
                place = max(_first_file(name, lines) for name in (former, each.name))
                raise ConfigError(explain_case(f"file {place}", former, each.name))
            _check_case(each.dataType, lines)


def _first_file(name: str, lines: DataFrame) -> str:
    """The first file with a name; empty if it is written with escapes."""
    found = lines.where(F.col("value").contains(json.dumps(name, ensure_ascii=False)))
    row = found.select(F.input_file_name()).sort("input_file_name()").first()
    return (row and row[0]) or ""


def read_refusal(message: str) -> ConfigError | None:
    """The error in Spark's message, if a plain file raised it; else None."""
    if found := _REFUSED.search(message):
        return ConfigError(found[1])
    if found := _HEADER.search(message):
        return ConfigError(
            f"file {found[2]}: its header is not the one of the first file ({' '.join(found[1].split())}); write the"
            " same columns and the same line breaks into each file, and give each column a name of its own"
        )
    if _QUOTE in message:
        return ConfigError("a CSV file has a field with text behind its closing quote; write a quote inside twice")
    return None


def _csv_value(name: str, *, is_last: bool) -> str:
    """SQL of a column's text; the last one of a line has the line break's carriage return."""
    value = quoted(name)
    plain = f"nullif(trim(TRAILING '{_RETURN}' FROM {value}), '')" if is_last else value
    return f"CASE {value} WHEN {text(_EMPTY)} THEN '' ELSE {plain} END AS {quoted(name.rstrip(_RETURN))}"


def _stop(line: str, why: str) -> str:
    """SQL that stops the job because of a line, which it names with its file."""
    shown = f"translate(left({line}, 60), '\r\n', '  ')"
    return f"raise_error(concat({text(_MARK)}, 'file ', input_file_name(), ': line ', {shown}, {text(f' {why}')}))"


# By itself Spark takes the first one of several objects, and other characters for damaged ones.
_IS_OBJECT = (
    "CASE WHEN NOT (startswith(value, '{') AND json_array_length(concat('[', value, ']')) <=> 1)"
    f" THEN {_stop('value', 'is not one JSON object; write one object per line')}"
    f" WHEN CAST(value AS BINARY) != encode(value, 'UTF-8') THEN {_stop('value', 'is not UTF-8; correct it')}"
    f" WHEN value RLIKE {text(LONE_SURROGATE)} THEN {_stop('value', 'has half of a surrogate pair; correct it')}"
    " ELSE true END"
)
