"""Whether Arrow's columns fit a declared schema without loss, and what to declare if they do not."""

from __future__ import annotations

import pyarrow as pa

from ...domain.errors import BadInput, ConfigError, did_you_mean
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import Column, DataType
from .nested_arrays import is_list

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32())
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_DIGITS |= {pa.uint8(): 3, pa.uint16(): 5, pa.uint32(): 10, pa.uint64(): 20}
_SAFE: dict[str, tuple[pa.DataType, ...]] = {
    "tinyint": _INTEGERS[:1],
    "smallint": _INTEGERS[:2] + _UNSIGNED[:1],
    "int": _INTEGERS[:3] + _UNSIGNED[:2],
    "bigint": _INTEGERS + _UNSIGNED,
    "float": (pa.float16(), pa.float32(), *_INTEGERS[:2], *_UNSIGNED[:2]),
    "double": (pa.float16(), pa.float32(), pa.float64(), *_INTEGERS[:3], *_UNSIGNED),
    "string": (pa.string(), pa.large_string(), pa.string_view()),
    "boolean": (pa.bool_(),),
    "binary": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "date": (pa.date32(),),
}
TEXTS, BINARIES = _SAFE["string"], _SAFE["binary"]
_NAMES: dict[pa.DataType, str] = {
    **{each: name for name, types in reversed(_SAFE.items()) for each in types},
    pa.uint64(): "decimal(20,0)",
}
"""The first type of `_SAFE` that holds all values of an Arrow type."""
_ONLY_ARROWS = (*_UNSIGNED, pa.uint64(), pa.float16())


def check_columns(there: pa.Schema, what: str, spec: RecordSpec) -> None:
    """Check columns against the declared schema.

    Args:
        there: the columns.
        what: has the columns, for messages.
        spec: the spec of the rows.

    Raises:
        BadInput: a column is missing, or has a type that could lose values.
    """
    for column in spec.schema.columns:
        if column.name in spec.optional and column.name not in there.names:
            continue
        fault = _not_once(column.name, column.name, there.names, "it")
        if fault := fault or _misfit(there.field(column.name).type, column.type, column.name):
            raise BadInput(f"{what}: column {fault}")


def _not_once(place: str, name: str, names: list[str], whole: str) -> str | None:
    """Says that a name is missing among some, or is there twice; None if it is there once."""
    has = f"{whole} has: {', '.join(names)}"
    if name not in names:
        return f"{place!r} is missing; {has}{did_you_mean(name, names)}"
    return None if names.count(name) == 1 else f"{place!r} must exist exactly once; {has}"


def _misfit(found: pa.DataType, wanted: DataType, place: str) -> str | None:
    """Says where a type could lose values, what is there and what is allowed; None if all fit."""
    if pa.types.is_null(found):
        return None  # no row has a value
    if wanted.is_map and wanted.element is not None and pa.types.is_map(found):
        key, value = wanted.element.fields
        return _misfit(found.key_type, key.type, f"{place}.{key.name}") or _misfit(
            found.item_type, value.type, f"{place}.{value.name}"
        )
    if wanted.element is not None and not wanted.is_map and is_list(found):
        return _misfit(found.value_type, wanted.element, f"{place}[]")
    if wanted.fields and pa.types.is_struct(found):
        return next(filter(None, (_misfit_of_field(found, each, place) for each in wanted.fields)), None)
    if _fits(plain_type(found), wanted):
        return None
    return (
        f"{place!r} is {_shown(found)}, which {wanted.declared} cannot hold without loss;"
        f" allowed: {_allowed(wanted)}{_remedy(found)}"
    )


def _misfit_of_field(found: pa.StructType, wanted: Column, place: str) -> str | None:
    place, names = f"{place}.{wanted.name}", [each.name for each in found]
    fault = _not_once(place, wanted.name, names, "its struct")
    return fault or _misfit(found.field(wanted.name).type, wanted.type, place)


def plain_type(found: pa.DataType) -> pa.DataType:
    """The type of the values, which a dictionary may hold."""
    return found.value_type if pa.types.is_dictionary(found) else found


def _fits(found: pa.DataType, wanted: DataType) -> bool:
    match wanted.name:
        case "decimal":
            return _fits_decimal(found, wanted)
        case "timestamp":
            return bool(pa.types.is_timestamp(found))
        case "timestamp_ntz":
            return bool(pa.types.is_timestamp(found) and found.tz is None)
        case name:
            return found in _SAFE.get(name, ())


def _fits_decimal(found: pa.DataType, wanted: DataType) -> bool:
    precision, scale = wanted.precision or 0, wanted.scale or 0
    if pa.types.is_decimal(found):
        return bool(found.scale <= scale and found.precision - found.scale <= precision - scale)
    return _DIGITS.get(found, precision + 1) <= precision - scale


def _allowed(wanted: DataType) -> str:
    match wanted.name:
        case "decimal":
            return f"decimals of no more digits than {wanted.ddl} on either side of the point, and integers that fit"
        case "timestamp":
            return "timestamps"
        case "timestamp_ntz":
            return "timestamps without a zone"
        case "array":
            return "maps" if wanted.is_map else "lists"
        case "struct":
            return "structs"
        case name:
            return ", ".join(dict.fromkeys(_NAMES[each] for each in _SAFE[name] if each not in _UNSIGNED))


def _shown(found: pa.DataType) -> str:
    return str(found) if found in _ONLY_ARROWS else _declared(found)


def _remedy(found: pa.DataType) -> str:
    declared = _declared(found)
    try:
        DataType.parse(declared)
    except ConfigError:
        return ""
    return f"; or declare it as {declared} in `schema`"


def _declared(found: pa.DataType) -> str:
    """The type that holds all values of an Arrow type, as `schema` declares it; Arrow's own name if there is none."""
    found = plain_type(found)
    if pa.types.is_map(found):
        return f"map<{_declared(found.key_type)},{_declared(found.item_type)}>"
    if is_list(found):
        return f"array<{_declared(found.value_type)}>"
    if pa.types.is_struct(found):
        return f"struct<{','.join(f'{each.name}:{_declared(each.type)}' for each in found)}>"
    if pa.types.is_decimal(found):
        return f"decimal({found.precision},{found.scale})"
    if pa.types.is_timestamp(found):
        return "timestamp_ntz" if found.tz is None else "timestamp"
    return _NAMES.get(found, str(found))
