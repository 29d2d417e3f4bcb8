"""Fingerprints of the settings that tables were built with.

The digest decides whether the tables can be continued; the settings are for messages. Besides, a fingerprint records
the types of the columns that changes are computed from, the settings by which a source is read, and the settings of
views that are computed on read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from .schema import INTEGERS, Schema

_DIGEST, _SETTINGS, _TYPES, _VIEWS = "digest", "settings", "types", "views"
DECODING, FIXED_DECODING = "(decoding)", "(fixed decoding)"
"""The parts of a fingerprint with all settings by which its sources are read, and with those of them that must stay."""
READ_TYPES = "(types)"
"""The part of a wide table's fingerprint with the types of the columns that its expressions read."""
NAMED_PARTS = frozenset({DECODING, FIXED_DECODING, READ_TYPES})
"""The parts of a wide table's fingerprint that are not hashes. No topic has these names."""
_FOUND_BY, _LATER = "(found by)", ", later "
_NOTHING: Mapping[str, str] = MappingProxyType({})
CHANGES = "changes (by format or row_kind)"
"""The name of a setting in `FIXED_DECODING`: whether rows can take others back (``yes``), or are all added (``no``)."""


def fingerprint(
    text: str,
    settings: Mapping[str, object],
    *,
    columns: Schema | None = None,
    views: Mapping[str, object] = _NOTHING,
    decoding: Mapping[str, str] = _NOTHING,
    fixed_decoding: Mapping[str, str] = _NOTHING,
    found_by: Mapping[str, str] = _NOTHING,
) -> str:
    """The fingerprint of a service's settings, as JSON.

    Args:
        text: everything that stored rows depend on; two fingerprints are equal if the digests of this text are.
        settings: the same settings by their configuration keys, for messages.
        columns: the columns of the source whose types must stay, because a later row takes their values back or is
            compared with them; see `changed_settings`.
        decoding: the settings by which the source is read; see `changed_decoding`.
        fixed_decoding: those of them that must stay, because a later row finds or takes back a stored one by values
            that they decide; see `changed_settings`.
        found_by: those of them that must stay from the first epoch on, if another setting of the service makes later
            rows find stored ones by values that they decide; see `fix_found_by`.
        views: by view, the settings that its rows depend on although no stored row does; see `changed_views`.
    """
    digest_ = hashlib.sha256(text.encode()).hexdigest()[:16]
    found: dict[str, Any] = {_DIGEST: digest_, _SETTINGS: {name: str(value) for name, value in settings.items()}}
    if columns:
        found[_TYPES] = {each.name: each.type.ddl for each in columns.columns}
    read_by = {DECODING: decoding, FIXED_DECODING: fixed_decoding, _FOUND_BY: found_by}
    found |= {part: dict(given) for part, given in read_by.items() if given}
    if views:
        found[_VIEWS] = {name: str(value) for name, value in views.items()}
    return join_parts(found)


def join_parts(parts: Mapping[str, object]) -> str:
    """The fingerprint with these parts, as JSON; equal parts give equal texts."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def split_parts(fingerprint_: str) -> dict[str, Any]:
    """The parts of a fingerprint; none if it is a digest alone, as version 0.1.0 stored it for most services."""
    parts: dict[str, Any] = json.loads(fingerprint_) if fingerprint_.startswith("{") else {}
    return parts


def digest(fingerprint_: str) -> str:
    """The digest in a fingerprint; for a wide table, which has none, its hashes as earlier versions wrote them."""
    parts = split_parts(fingerprint_)
    if not parts or _DIGEST in parts:
        return str(parts.get(_DIGEST, fingerprint_))
    return join_parts({name: part for name, part in parts.items() if name not in NAMED_PARTS})


def recorded_setting(fingerprint_: str, name: str) -> str | None:
    """The value of a setting in a fingerprint, as text; None if it is not on record."""
    found = split_parts(fingerprint_).get(_SETTINGS, {}).get(name)
    return None if found is None else str(found)


def changed_settings(built: str, now: str, also: Collection[str] = ()) -> str | None:
    """The settings that differ between two fingerprints, with old and new values, for display; None if they are equal.

    They are equal if the digests are, and, where both record them, the types of columns (one integer type is as good
    as another) and the settings of the source that must stay.

    Args:
        built: the fingerprint of the tables.
        now: the fingerprint of the present settings.
        also: settings that are compared besides, because the digest does not contain them.

    >>> changed_settings(fingerprint("a", {"method": "rank"}), fingerprint("b", {"method": "dense_rank"}))
    'settings: method rank -> dense_rank'
    """
    same = digest(built) == digest(now)
    settings = _describe(each for each in _differences(_SETTINGS, built, now) if not same or each[0] in also)
    types = _describe(each for each in _differences(_TYPES, built, now) if not (same and INTEGERS.issuperset(each[1:])))
    source = changed_decoding(built, now, FIXED_DECODING)
    parts = (("settings", settings), ("types of columns", types), ("settings of its source", source))
    found = [f"{what}: {text}" for what, text in parts if text]
    if not (found or same):
        return "settings (what they were is not on record)"
    return "; ".join(found) or None


def changed_views(built: str, now: str) -> frozenset[str]:
    """The views that have other rows under the present settings, over the same tables.

    >>> changed_views(fingerprint("a", {}, views={"top": 10}), fingerprint("a", {}, views={"top": 20}))
    frozenset({'top'})
    """
    return frozenset(name for name, _, _ in _differences(_VIEWS, built, now))


def view_settings(fingerprint_: str, view: str) -> str | None:
    """The settings that a view's rows depend on although no stored row does; None if there are none on record.

    >>> view_settings(fingerprint("a", {}, views={"top": 10}), "top")
    '10'
    """
    return _part(_VIEWS, fingerprint_).get(view)


def changed_decoding(built: str, now: str, part: str = DECODING) -> str | None:
    """The settings of sources that differ, with old and new values, for display; None if none does.

    >>> old, new = (fingerprint("a", {}, decoding={"header": each}) for each in ("true", "false"))
    >>> changed_decoding(old, new)
    'header true -> false'
    """
    return _describe(_differences(part, built, now)) or None


def changed_types(built: str, now: str) -> str | None:
    """The types of the columns that a wide table's expressions read, where they differ, with old and new values.

    One integer type is as good as another: an expression has the same value of both, or its own type differs too.

    >>> old, new = (join_parts({READ_TYPES: {"n": each}}) for each in ("int", "string"))
    >>> changed_types(old, new)
    'n int -> string'
    """
    return _describe(each for each in _differences(READ_TYPES, built, now) if not INTEGERS.issuperset(each[1:])) or None


def fix_found_by(fingerprint_: str) -> str:
    """The same fingerprint, where the settings by which rows are found are those that must stay.

    A fingerprint of before they were recorded has only what the latest epoch was read by.

    >>> old, new = (fingerprint("a", {}, found_by={"time_zone": each}) for each in ("UTC", "Asia/Tokyo"))
    >>> changed_settings(old, new)
    >>> changed_settings(fix_found_by(old), fix_found_by(new))
    'settings of its source: time_zone UTC -> Asia/Tokyo'
    """
    parts = split_parts(fingerprint_)
    return join_parts(parts | {FIXED_DECODING: _found_by(fingerprint_)}) if parts else fingerprint_


def add_found_by(built: str, now: str) -> str:
    """The present fingerprint, with the settings by which the rows of all epochs were found.

    A setting that was edited has all of its values, so that it differs from each of them.

    Args:
        built: the fingerprint of the tables.
        now: the fingerprint of the present settings.

    >>> old, new = (fingerprint("a", {}, found_by={"time_zone": each}) for each in ("UTC", "Asia/Tokyo"))
    >>> changed_settings(fix_found_by(add_found_by(old, new)), fix_found_by(new))
    'settings of its source: time_zone UTC, later Asia/Tokyo -> Asia/Tokyo'
    """
    found = dict(_found_by(built))
    for name, value in _part(_FOUND_BY, now).items():
        former = found.get(name, value)
        found[name] = former if value in former.split(_LATER) else f"{former}{_LATER}{value}"
    return join_parts(split_parts(now) | {_FOUND_BY: found}) if found else now


def _found_by(fingerprint_: str) -> Mapping[str, str]:
    if found := _part(_FOUND_BY, fingerprint_):
        return found
    # The metadata of all columns says nothing about some of them.
    read_by = {name: value for name, value in _part(DECODING, fingerprint_).items() if name != "metadata"}
    read_by |= _part(FIXED_DECODING, fingerprint_)
    return {**_changes_by(read_by), **read_by}


def _differences(part: str, *fingerprints: str) -> list[tuple[str, str, str]]:
    """The names whose values differ, with both values; a name that only one of them has is left out."""
    old, new = (_part(part, each) for each in fingerprints)
    if CHANGES in new and CHANGES not in old:
        old = {**old, **_changes_by(old)}
    return [(name, old[name], new[name]) for name in new if name in old and old[name] != new[name]]


def _part(part: str, fingerprint_: str) -> dict[str, str]:
    """A part of a fingerprint that has a value for each name; empty if it is not on record."""
    found = split_parts(fingerprint_).get(part)
    return found if isinstance(found, dict) else {}  # a wide table's is a text for each topic


def _changes_by(older: Mapping[str, str]) -> Mapping[str, str]:
    """`CHANGES` by the settings that were recorded before it was one of them; empty if they do not decide it."""
    if "metadata" in older:  # of changelogs only
        return {CHANGES: "yes"}
    kind = older.get("row_kind")
    return {} if kind is None else {CHANGES: "no" if kind == "none" else "yes"}


def _describe(differences: Iterable[tuple[str, str, str]]) -> str:
    return ", ".join(f"{name} {old} -> {new}" for name, old, new in differences)
