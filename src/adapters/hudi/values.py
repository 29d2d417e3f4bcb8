"""Values as Hudi stores them: nested ones as the text of JSON, without loss.

Hudi writes and merges records through Avro. Its writer refuses null inside a list, and copy-on-write tables cannot
merge into files with lists, or with times inside structs (Hudi 1.2).
"""

from __future__ import annotations

from ...domain.table.schema import DataType

_TIMES = (
    "'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX',"
    " 'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'dateFormat', 'yyyy-MM-dd'"
)


def stored_ddl(kind: DataType) -> str:
    """The type as which values are stored."""
    return "string" if kind.is_nested else kind.ddl


def to_stored_sql(value: str, kind: DataType) -> str:
    """SQL of a value as it is stored."""
    return f"to_json({value}, map({_TIMES}))" if kind.is_nested else value


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
