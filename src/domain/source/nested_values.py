"""The conversion of arrays, structs and maps: each value inside by its own converter, refused with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from operator import itemgetter
from typing import Any

from ..table.schema import KEY, VALUE, Column
from .conversion import Build, Choose, Convert, Refusal, Target, Undecodable

ELEMENT = ""
"""The name of the column that stands for an array's elements where a `Build` is chosen."""
_WHOLE = re.compile(r"-?[0-9]+")


def nested(choose: Choose) -> dict[str, Build]:
    """Builds of converters of nested values, by type name; `choose` chooses those of the values inside."""

    def array(target: Target) -> Convert:
        return _map(target, choose) if target.type.is_map else _array(target, choose)

    return {"array": array, "struct": lambda target: _struct(target, choose)}


def _map(target: Target, choose: Choose) -> Convert:
    refuse, element = target.refuse, target.type.element
    assert element is not None
    key, value = element.fields
    key_of = _of_key(key, target, choose)

    def build(place: object) -> Convert:
        return choose(value)(target.inside(f"[{place}]", value.type))

    value_of = build("")

    def entry(name: Any, found: Any) -> dict[str, Any]:
        try:
            return {KEY: key_of(name), VALUE: None if found is None else value_of(found)}
        except Undecodable:
            if found is not None:
                build(name)(found)  # the converter of the value that is refused names its place
            raise

    def convert(found: Any) -> list[Any]:
        entries = sorted((entry(*each) for each in _pairs(found, refuse)), key=itemgetter(KEY))
        for each, after in pairwise(entries):
            if each[KEY] == after[KEY]:
                raise refuse(found, f"two keys are {each[KEY]}")
        return entries

    return convert


def _pairs(found: Any, refuse: Refusal) -> Iterable[tuple[Any, Any]]:
    """The keys and values of an object, or of a list of entries, as which maps are shown."""
    if type(found) is dict:
        return found.items()
    if type(found) is not list or any(type(each) is not dict or each.keys() != {KEY, VALUE} for each in found):
        raise refuse(found)
    return [(each[KEY], each[VALUE]) for each in found]


def _of_key(key: Column, target: Target, choose: Choose) -> Convert:
    """Converts keys, which are texts in JSON."""
    inside = target.inside(".key", key.type)
    convert, is_text = choose(key)(inside), key.type.name == "string"

    def of(found: Any) -> Any:
        if found is None or (type(found) is str and not is_text and not _WHOLE.fullmatch(found)):
            raise inside.refuse(found)
        return convert(found if is_text or type(found) is not str else int(found))

    return of


def _array(target: Target, choose: Choose) -> Convert:
    refuse, element = target.refuse, target.type.element
    assert element is not None

    def build(place: object) -> Convert:
        return choose(Column(ELEMENT, element))(target.inside(f"[{place}]", element))

    each_of = build("")

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise refuse(value)
        try:
            return [None if each is None else each_of(each) for each in value]
        except Undecodable:
            for at, each in enumerate(value):  # the converter of the element that is refused names its place
                if each is not None:
                    build(at)(each)
            raise

    return convert


def _struct(target: Target, choose: Choose) -> Convert:
    refuse = target.refuse
    fields = [(each.name, choose(each)(target.inside(f".{each.name}", each.type))) for each in target.type.fields]

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise refuse(value)
        get = value.get
        return {name: None if (found := get(name)) is None else field(found) for name, field in fields}

    return convert
