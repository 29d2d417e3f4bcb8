"""Values as Hudi stores them: nested ones as the text of JSON, without loss, and small whole numbers as larger ones.

Hudi writes and merges records through Avro. Its writer refuses null inside a list, and copy-on-write tables cannot
merge into files with lists, or with times inside structs (Hudi 1.2). Avro has no whole numbers of less than 32 bits:
an upsert stores them as 32 bits by itself, and a bulk insert, which takes another way, fails.
"""

from __future__ import annotations

from ...domain.table.schema import DataType

_STORED = {"tinyint": "int", "smallint": "int"}
_TIMES = (
    "'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX',"
    " 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'dateFormat', 'yyyy-MM-dd'"
)


def stored_ddl(kind: DataType) -> str:
    """The type as which values are stored."""
    return "string" if kind.is_nested else _STORED.get(kind.name, kind.ddl)


def to_stored_sql(value: str, kind: DataType) -> str:
    """SQL of a value as it is stored."""
    if kind.is_nested:
        return f"to_json({value}, map({_TIMES}))"
    return f"CAST({value} AS {_STORED[kind.name]})" if kind.name in _STORED else value


def from_stored_sql(value: str, kind: DataType) -> str:
    """SQL of a nested value from its stored text; a text that is none of ours fails, instead of giving null."""
    return f"from_json({value}, '{_quoted_ddl(kind)}', map('mode', 'FAILFAST', {_TIMES}))"


def _quoted_ddl(kind: DataType) -> str:
    """The type as DDL with quotes around the names of fields, which may be words of SQL.

    >>> _quoted_ddl(DataType.parse("array<struct<order:int>>"))
    'array<struct<`order`:int>>'
    """
    if kind.element is not None:
        return f"array<{_quoted_ddl(kind.element)}>"
    if kind.fields:
        return f"struct<{','.join(f'`{each.name}`:{_quoted_ddl(each.type)}' for each in kind.fields)}>"
    return kind.ddl
