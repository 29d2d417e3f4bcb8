"""Column types in Spark DDL, and their narwhals types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import narwhals as nw
from attrs import field, frozen
from narwhals.dtypes import DType

from ..errors import ConfigError, did_you_mean

_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bool": "boolean",
    "numeric": "decimal",
    "dec": "decimal",
    "timestamp_ltz": "timestamp",
}
_ELSEWHERE = {
    "text": "string",
    "str": "string",
    "object": "string",
    "datetime": "timestamp",
    "datetime64": "timestamp",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "bytes": "binary",
}
"""The names of types in other systems, for messages only."""
_NARWHALS: dict[str, DType] = {
    "tinyint": nw.Int8(),
    "smallint": nw.Int16(),
    "int": nw.Int32(),
    "bigint": nw.Int64(),
    "float": nw.Float32(),
    "double": nw.Float64(),
    "string": nw.String(),
    "boolean": nw.Boolean(),
    "binary": nw.Binary(),
    "date": nw.Date(),
    "timestamp": nw.Datetime("us", "UTC"),
    "timestamp_ntz": nw.Datetime("us"),
}
INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})
FLOATS = frozenset({"float", "double"})
NUMBERS = INTEGERS | FLOATS | {"decimal"}
NESTED = frozenset({"array", "struct"})
KEY, VALUE = "key", "value"  # of the entries of a map
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?\))?")
_MAX_PRECISION = 38


@frozen
class DataType:
    """One Spark SQL type: `name` is its canonical DDL word.

    Args:
        name: the word; nested types are ``array`` and ``struct``.
        precision: of a decimal.
        scale: of a decimal.
        element: the type of an array's elements.
        fields: the fields of a struct, in order.
        is_map: whether an array has the entries of a map, by different keys, in their order. Tables do not know it.
    """

    name: str
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    fields: tuple[Column, ...] = ()
    is_map: bool = field(default=False, eq=False)

    @classmethod
    def parse(cls, ddl: str) -> DataType:
        """Parse one DDL type.

        Raises:
            ConfigError: the type is unknown; the message lists the known ones.

        >>> DataType.parse("DECIMAL(18,2)").ddl
        'decimal(18,2)'
        >>> DataType.parse("array<struct<sku: string, n: INTEGER>>").ddl
        'array<struct<sku:string,n:int>>'
        """
        if match := _NESTED.fullmatch(ddl):
            return _NESTED_BY_WORD[match[1].lower()](match[2], ddl)
        word = ddl.strip().lower()
        head = word.split("(", 1)[0].strip()
        word = word.replace(head, _ALIASES.get(head, head), 1)
        if match := _DECIMAL.fullmatch(word):
            precision, scale = int(match[1] or 10), int(match[2] or 0)
            if not 0 <= scale <= precision <= _MAX_PRECISION or precision == 0:
                raise ConfigError(
                    f"{ddl!r}: a decimal has 1 to {_MAX_PRECISION} digits, and its scale may not be more than these"
                )
            return cls("decimal", precision, scale)
        if re.fullmatch(r"(var)?char\(\s*\d+\s*\)", word):
            return cls("string")
        if word in _NARWHALS:
            return cls(word)
        near = did_you_mean(_ELSEWHERE.get(head, head), [*_NARWHALS, *_ALIASES])
        raise ConfigError(f"unknown column type {ddl!r}; known: {_known()}{near}")

    @classmethod
    def array(cls, element: DataType) -> DataType:
        """The type of arrays of these elements."""
        return cls("array", element=element)

    @classmethod
    def map(cls, key: DataType, value: DataType) -> DataType:
        """The type of maps, as the array of their entries.

        Raises:
            ConfigError: a key can be neither a string nor an integer.
        """
        if key.name not in {"string", *INTEGERS}:
            raise ConfigError(
                f"keys of a map are strings or integers, not {key.declared}; declare a string, for the JSON"
            )
        return cls("array", element=cls.struct((Column(KEY, key), Column(VALUE, value))), is_map=True)

    @classmethod
    def struct(cls, fields: Iterable[Column]) -> DataType:
        """The type of structs with these fields.

        Raises:
            ConfigError: a name is no identifier, or occurs twice.
        """
        found = Schema(fields)
        for each in found.names:
            if not _FIELD.fullmatch(each):  # in Avro, and so in Hudi's tables, fields have no other names
                raise ConfigError(
                    f"field {each!r} of a struct: names have letters, digits and _ only, and begin with no digit;"
                    " rename it in the source, or declare the column as string, which takes the JSON"
                )
        if not found.names:
            raise ConfigError("a struct has at least one field, such as struct<city:string>")
        return cls("struct", fields=found.columns)

    @classmethod
    def of(cls, dtype: DType) -> DataType:
        """The type of a frame's column.

        Raises:
            ConfigError: tables do not support the type.

        >>> DataType.of(nw.Decimal(18, 2)).ddl
        'decimal(18,2)'
        """
        if isinstance(dtype, nw.Decimal) and dtype.precision is not None:
            return cls("decimal", dtype.precision, dtype.scale)
        if isinstance(dtype, nw.Datetime):
            return cls("timestamp" if dtype.time_zone else "timestamp_ntz")
        if isinstance(dtype, nw.List):
            return cls.array(cls.of(_instance(dtype.inner)))
        if isinstance(dtype, nw.Struct):
            return cls.struct(Column(each.name, cls.of(_instance(each.dtype))) for each in dtype.fields)
        for name, known in _NARWHALS.items():
            if dtype == known:
                return cls(name)
        raise ConfigError(f"no table has columns of type {dtype}; known: {_known()}")

    @property
    def is_nested(self) -> bool:
        """Whether values have values inside."""
        return self.name in NESTED

    @property
    def ddl(self) -> str:
        """The type as Spark DDL."""
        if self.element is not None:
            return f"array<{self.element.ddl}>"
        if self.fields:
            return f"struct<{','.join(f'{each.name}:{each.type.ddl}' for each in self.fields)}>"
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def declared(self) -> str:
        """The type as it is declared, for messages: a map is a map."""
        if self.element is None:
            fields = ",".join(f"{each.name}:{each.type.declared}" for each in self.fields)
            return f"struct<{fields}>" if fields else self.ddl
        key_and_value = ",".join(each.type.declared for each in self.element.fields)
        return f"map<{key_and_value}>" if self.is_map else f"array<{self.element.declared}>"

    @property
    def narwhals(self) -> DType:
        """The narwhals type; timestamps are in microseconds, UTC."""
        if self.element is not None:
            return nw.List(self.element.narwhals)
        if self.fields:
            return nw.Struct({each.name: each.type.narwhals for each in self.fields})
        if self.precision is not None:
            return nw.Decimal(self.precision, self.scale or 0)
        return _NARWHALS[self.name]

    def leaves(self, path: str = "") -> Iterator[tuple[str, DataType]]:
        """The types inside that are not nested, each with its path.

        >>> [path for path, _ in DataType.parse("array<struct<a:int,b:array<int>>>").leaves("x")]
        ['x[].a', 'x[].b[]']
        """
        if self.element is not None:
            yield from self.element.leaves(f"{path}[]")
        elif self.fields:
            for each in self.fields:
                yield from each.type.leaves(f"{path}.{each.name}")
        else:
            yield path, self


def _known() -> str:
    return f"{', '.join(sorted(_NARWHALS))}, decimal(p,s), array<type>, struct<name:type,...>, map<type,type>"


def _instance(dtype: DType | type[DType]) -> DType:
    return dtype() if isinstance(dtype, type) else dtype


def _array(inner: str, _ddl: str) -> DataType:
    return DataType.array(DataType.parse(inner))


def _struct(inner: str, ddl: str) -> DataType:
    return DataType.struct(_columns(inner, f"type {ddl.strip()!r}", "name:type, name:type"))


def _map(inner: str, ddl: str) -> DataType:
    parts = [DataType.parse(each) for each in _split_top_level(inner)]
    if len(parts) != 2:  # noqa: PLR2004
        raise ConfigError(f"cannot read type {ddl.strip()!r}; write 'map<key type,value type>'")
    return DataType.map(*parts)


_NESTED = re.compile(r"\s*(array|struct|map)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_NESTED_BY_WORD = {"array": _array, "struct": _struct, "map": _map}
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COLUMN = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*[\s:]\s*(.+?)\s*(?:not\s+null)?\s*", re.IGNORECASE | re.DOTALL)


@frozen
class Column:
    """A named, typed column. Every column may hold null."""

    name: str
    type: DataType


def column(name: str, ddl: str) -> Column:
    """A column from its name and DDL type."""
    return Column(name, DataType.parse(ddl))


def _split_top_level(ddl: str) -> Iterator[str]:
    """Split at the commas outside parentheses and backticks.

    >>> list(_split_top_level("a decimal(18,2), b int"))
    ['a decimal(18,2)', ' b int']
    """
    depth, quoted, start = 0, False, 0
    for at, char in enumerate(ddl):
        if char == "`":
            quoted = not quoted
        elif not quoted:
            depth += (char in "(<") - (char in ")>")
            if char == "," and depth == 0:
                yield ddl[start:at]
                start = at + 1
    yield ddl[start:]


def _columns(ddl: str, where: str, form: str) -> Iterator[Column]:
    """The columns of a schema, or the fields of a struct."""
    for part in _split_top_level(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise ConfigError(f"cannot read column {part.strip()!r} of {where}; write '{form}'")
        yield column(match[1] or match[2], match[3])


def is_column_name(name: str) -> bool:
    """Whether a column may have a name: it is not empty, and has no backtick and no dot."""
    return bool(name) and not {"`", "."} & {*name}  # some engines read both as syntax, and narwhals cannot quote them


def _unique_names(_instance: object, _attribute: object, columns: tuple[Column, ...]) -> None:
    # SQL's names are case-insensitive, so `A` and `a` would be one column to some engines and two to others.
    seen: dict[str, str] = {}
    for each in columns:
        if not is_column_name(each.name):
            what = "has a backtick or a dot in its name" if each.name else "has no name"
            raise ConfigError(f"column {each.name!r} {what}; rename it in the source")
        lower = each.name.lower()
        if lower in seen:
            raise ConfigError(f"column {each.name!r} occurs twice (or differs from {seen[lower]!r} only in case)")
        seen[lower] = each.name


@frozen
class Schema:
    """An ordered set of columns; names are unique, ignoring case."""

    columns: tuple[Column, ...] = field(converter=tuple[Column, ...], validator=_unique_names)

    @classmethod
    def parse(cls, ddl: str) -> Schema:
        """Parse Spark DDL such as ``order_id bigint, amount decimal(18,2)``; an empty text gives no columns.

        Raises:
            ConfigError: a column has no type or an unknown type, or a name occurs twice.

        >>> Schema.parse("id bigint, `a b` string").names
        ('id', 'a b')
        """
        return cls(_columns(ddl, f"schema {ddl!r}", "name type, name type") if ddl else ())

    @classmethod
    def of(cls, frame: nw.LazyFrame[Any]) -> Schema:
        """The columns of a frame.

        Raises:
            ConfigError: a column has a name or a type that tables do not support; the message names it.
        """
        return cls(Column(name, _type_of(name, dtype)) for name, dtype in frame.collect_schema().items())

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(each.name for each in self.columns)

    @property
    def ddl(self) -> str:
        """The schema as Spark DDL, names in backticks."""
        return ", ".join(f"`{each.name}` {each.type.ddl}" for each in self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> DataType:
        for each in self.columns:
            if each.name == name:
                return each.type
        raise ConfigError(f"no column {name!r}; there are: {', '.join(self.names)}")

    def select(self, names: Iterable[str]) -> Schema:
        """These columns, in the order given."""
        return Schema(Column(name, self[name]) for name in names)

    def without(self, names: Iterable[str]) -> Schema:
        """All columns except these."""
        left_out = set(names)
        return Schema(each for each in self.columns if each.name not in left_out)

    def filled(self, value: Any) -> list[nw.Expr]:
        """The columns of a frame in which each row has this value, such as 0 or None."""
        return [nw.lit(value).cast(each.type.narwhals).alias(each.name) for each in self.columns]

    def plus(self, *columns: Column) -> Schema:
        """These columns, followed by more."""
        return Schema((*self.columns, *columns))


def _type_of(name: str, dtype: DType) -> DataType:
    try:
        return DataType.of(dtype)
    except ConfigError as error:
        raise ConfigError(f"column {name!r}: {error}; cast it, or leave it out") from error


def show_type(dtype: DType) -> str:
    """The type of a frame's column for a message: as it is declared, or as the frame names it if no table has it."""
    try:
        return DataType.of(dtype).ddl
    except ConfigError:
        return str(dtype)
