"""Nested Arrow values in a declared type: each value inside is converted, and what cannot be is told by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ...domain.table.schema import KEY, VALUE, DataType
from .decoder import arrow_type

Faults: TypeAlias = Mapping[int, tuple[str, str]]
"""What is wrong with some values, by their number: the place inside the value, and the reason, for a message."""

Leaf: TypeAlias = "Callable[[pa.Array, DataType], tuple[pa.Array, Faults]]"
"""Converts values that are not nested; one with a fault becomes null."""


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def convert_nested(values: pa.Array, wanted: DataType, leaf: Leaf) -> tuple[pa.Array, Faults]:
    """Values in a declared type, which they fit, and what is wrong with some of them."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), arrow_type(wanted)), {}
    if wanted.is_map and wanted.element is not None:
        return _maps(values, wanted.element, leaf)
    if wanted.element is not None:
        return _lists(values, wanted.element, leaf)
    if wanted.fields:
        return _structs(values, wanted, leaf)
    return leaf(values, wanted)


def _lists(values: pa.Array, element: DataType, leaf: Leaf) -> tuple[pa.Array, Faults]:
    inside, faults = convert_nested(values.flatten(), element, leaf)
    offsets = _offsets(values)
    found: dict[int, tuple[str, str]] = {}
    if faults:
        rows = pc.list_parent_indices(values)
        for at, (place, why) in sorted(faults.items()):
            row = rows[at].as_py()
            found.setdefault(row, (f"[{at - offsets[row].as_py()}]{place}", why))
    return _with_values(values, inside), found


def _offsets(lists: pa.Array) -> pa.Array:
    """Where the values of each list begin, if those of all lists stand one after the other."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _maps(values: pa.Array, entry: DataType, leaf: Leaf) -> tuple[pa.Array, Faults]:
    """Maps as lists of their entries, in the order of the keys; a key must not be there twice."""
    inside = pa.struct([(KEY, values.type.key_type), (VALUE, values.type.item_type)])
    found = values.cast(pa.list_(inside))
    row, key = pc.list_parent_indices(found), pc.struct_field(found.flatten(), KEY)
    order = pc.sort_indices(pa.table({"row": row, "key": key}), [("row", "ascending"), ("key", "ascending")])
    key = key.take(order)
    lists, faults = _lists(_with_values(found, found.flatten().take(order)), entry, leaf)
    twice = pc.indices_nonzero(pc.and_(pc.equal(key[1:], key[:-1]), pc.equal(row[1:], row[:-1])))
    more = {row[at].as_py(): (f"[{key[at].as_py()}]", "the key is there twice") for at in twice.to_pylist()}
    return lists, {**more, **faults}


def _with_values(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Lists of the same lengths with other values."""
    return pa.ListArray.from_arrays(_offsets(lists), values, mask=pc.is_null(lists))


def _structs(values: pa.Array, wanted: DataType, leaf: Leaf) -> tuple[pa.Array, Faults]:
    columns, found = {}, dict[int, tuple[str, str]]()
    for each in wanted.fields:
        columns[each.name], faults = convert_nested(pc.struct_field(values, each.name), each.type, leaf)
        for row, (place, why) in faults.items():
            found.setdefault(row, (f".{each.name}{place}", why))
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields, mask=pc.is_null(values)), found


def with_plain_times(values: pa.Array) -> pa.Array:
    """Values whose times are not in dictionaries, as those of a category are."""
    wanted = _with_plain_times(values.type)
    return values if wanted == values.type else values.cast(wanted)


def _with_plain_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type if pa.types.is_temporal(kind.value_type) else kind
    if is_list(kind):
        inside = _with_plain_times(kind.value_type)
        return kind if inside == kind.value_type else pa.list_(inside)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _with_plain_times(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_with_plain_times(each.type)) for each in kind])
    return kind


def with_texts(values: pa.Array) -> pa.Array:
    """Values with text in the place of times, which may be too large for Python."""
    return values.cast(_texts(values.type))


def _texts(kind: pa.DataType) -> pa.DataType:
    if is_list(kind):
        return pa.list_(_texts(kind.value_type))
    if pa.types.is_map(kind):
        return pa.list_(pa.struct([(KEY, kind.key_type), (VALUE, _texts(kind.item_type))]))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _texts(each.type)) for each in kind])
    return pa.string() if pa.types.is_temporal(kind) else kind
