"""The kinds of configuration values: how each is written, read, and taken from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from re import fullmatch
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from attrs import NOTHING, Factory, evolve, field, fields_dict, frozen

from ...adapters.shared.address import host_of
from ...domain.duration import parse_duration
from ...domain.errors import ConfigError, did_you_mean
from ...domain.source.dead_letter import LIMIT as SHARE_OR_ROWS
from ...domain.source.dead_letter import Limit
from ...domain.table.schema import Schema
from .paths import check_local, without_file_scheme
from .plain import check_type, shown


@frozen
class Kind:
    """One kind of value.

    Args:
        expects: what is allowed, for messages.
        read: converts a TOML value; raises `ConfigError` with the mistake, without the place.
        from_text: converts the text of an environment variable to a TOML value; None if one text cannot hold it.
        inside: returns the keys in a value that is a table; None if variables cannot override them.
        json: the value as JSON Schema, for editors; empty if it can be anything. An object without
            ``additionalProperties`` has the keys of `inside`.
        forms: returns, for editors, the keys of each form of a table by the key that only this form has; by an empty
            text those of a table without such a key. None if it has one form.
    """

    expects: str
    read: Callable[[Any], Any]
    from_text: Callable[[str], Any] | None = str
    inside: Callable[[Mapping[str, Any]], Mapping[str, Key]] | None = None
    json: Mapping[str, Any] = field(factory=dict, eq=False)
    forms: Callable[[], Mapping[str, Mapping[str, Key]]] | None = field(default=None, eq=False)


@frozen
class Key:
    """A key of a table. `default` is a converted value; a required key has none."""

    kind: Kind
    default: Any = None
    required: bool = False


def keys_of(settings: type, **kinds: Kind) -> dict[str, Key]:
    """Return the keys that set attributes of an attrs class; a key is required if its attribute has no default."""
    attributes = fields_dict(settings)
    return {name: _key_of(attributes[name].default, kind) for name, kind in kinds.items()}


def _key_of(default: Any, kind: Kind) -> Key:
    if default is NOTHING:
        return Key(kind, required=True)
    return Key(kind, default.factory() if isinstance(default, Factory) else default)  # type: ignore[arg-type]


def _text(value: Any) -> str:
    text: str = check_type(value, str, TEXT.expects)
    if not text:
        raise ConfigError("the text is empty; write one")
    return text


def _address(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")) or not host_of(value):
        raise ConfigError(f"is not {ADDRESS.expects}")  # it may be a secret, and is not shown
    if any(each.isspace() or not each.isprintable() for each in value):
        raise ConfigError("has a space or a control character: leave it out, or write a space as %20")
    return value


def _webhook(value: Any) -> str:
    address = _address(value)
    parts = urlsplit(address)
    if "@" in parts.netloc:
        raise ConfigError("must not contain a user or a password, which cannot be sent: put the secret into the path")
    if not (parts.path + parts.query).isascii():
        raise ConfigError("has letters outside of ASCII behind its host: write them as %C3%BC, for example")
    return address


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ConfigError(f"{shown(value)} is not {TEXTS.expects}")
    return _once(value)


def _once(texts: list[str]) -> tuple[str, ...]:
    if twice := sorted({each for each in texts if texts.count(each) > 1}):
        raise ConfigError(f"{twice[0]!r} is given twice; name it once")
    return tuple(texts)


def _text_or_texts(value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ConfigError(f"{shown(value)} is not {TEXT_OR_TEXTS.expects}")
    return _once(texts)


def _some_texts(value: Any) -> tuple[str, ...]:
    if not (texts := _texts(value)):
        raise ConfigError(f"the list is empty; it needs {SOME_TEXTS.expects}")
    return texts


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not fullmatch(_TOPIC_NAME, value) or value in {".", ".."}:
        raise ConfigError(f"{shown(value)} is not {TOPIC.expects}")
    return value


def _servers(value: Any) -> str:
    for server in (each.strip() for each in _text(value).split(",")):
        found = fullmatch(_SERVER, server)
        if not found or not 0 < int(found[1] or 1) <= _LAST_PORT:
            raise ConfigError(f"{server!r} is not a server such as 'host:9092'; several are separated by commas")
    return str(value)


def _lists(value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        raise ConfigError(f"{shown(value)} is not {LISTS.expects}")
    return tuple(_texts(each) for each in value)


def _whole(value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{shown(value)} is not a whole number of at least {least}")
    return value


def _flag_or_text(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def _number_or_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{shown(value)} is not {NUMBER_OR_TEXT.expects}")
    return str(value)


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):  # of a program; `plain` writes all others as texts
        raise ConfigError(f"{value!r} has a part of a millisecond; durations are whole milliseconds")
    duration = parse_duration(check_type(value, str, DURATION.expects))
    if duration < timedelta():
        raise ConfigError(f"{value!r} is negative")
    return duration


def _positive_duration(value: Any) -> timedelta:
    if not (duration := _duration(value)):
        raise ConfigError(f"{shown(value)} is not {POSITIVE_DURATION.expects}")
    return duration


def _zone(value: Any) -> str:
    try:
        ZoneInfo(_text(value))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones() if isinstance(value, str) else ()
        raise ConfigError(f"{shown(value)} is not {ZONE.expects}{did_you_mean(value, sorted(known))}") from error
    return str(value)


def _settings(value: Any) -> dict[str, str]:
    settings = flatten(check_type(value, dict, SETTINGS.expects))
    return {name: _setting(name, each) for name, each in settings.items()}


def _setting(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ConfigError(f"{name} = {shown(value)} is not a text, a number, true or false")
    return str(value)


def flatten(table: dict[str, Any]) -> dict[str, Any]:
    """Join the keys of nested tables with dots: TOML turns unquoted dotted keys into tables.

    >>> flatten({"spark": {"driver": {"memory": "2g"}}, "a.b": 1})
    {'spark.driver.memory': '2g', 'a.b': 1}
    """
    flat: dict[str, Any] = {}
    for name, value in table.items():
        inner = flatten(value) if isinstance(value, dict) else {"": value}
        flat.update({f"{name}.{rest}".rstrip("."): each for rest, each in inner.items()})
    return flat


def _choice(value: Any, allowed: tuple[str, ...]) -> str:
    if not allowed:
        raise ConfigError(f"{value!r} is unknown; none is declared")
    if value not in allowed:
        raise ConfigError(f"{value!r} is unknown; allowed: {', '.join(allowed)}{did_you_mean(value, allowed)}")
    return str(value)


def _of_type(
    kind: type, expects: str, from_text: Callable[[str], Any] | None = str, *, json: Mapping[str, Any]
) -> Kind:
    return Kind(expects, partial(check_type, kind=kind, expected=expects), from_text, json=json)


def one_text(expects: str) -> Kind:
    """A kind: a text; `expects` says which."""
    return evolve(TEXT, expects=expects)


def choice(*allowed: str) -> Kind:
    """A kind: one of a few words."""
    return Kind(f"one of {', '.join(allowed)}", partial(_choice, allowed=allowed), json={"enum": list(allowed)})


def table_of(keys: Mapping[str, Key]) -> Kind:
    """A kind: a table with these keys."""
    return or_table(TABLE, keys)


def or_table(kind: Kind, keys: Mapping[str, Key]) -> Kind:
    """A kind: a value of another kind, or a table with these keys in its place."""
    return evolve(kind, inside=lambda _: keys)


def named(kind: Kind) -> Kind:
    """A kind: a table whose keys are names, each with a value of one kind."""
    return evolve(TABLE, inside=lambda table: dict.fromkeys(table, Key(kind)))


def whole(least: int) -> Kind:
    """A kind: a whole number with a lower bound."""
    return Kind(
        f"a whole number of at least {least}",
        partial(_whole, least=least),
        _int_or_text,
        json={"type": "integer", "minimum": least},
    )


def _int_or_text(text: str) -> int | str:
    return int(text) if text.strip().isdecimal() else text


def _limit(value: Any) -> Limit:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigError(f"{shown(value)} is not {LIMIT.expects}")
    return Limit.parse(value)


_A_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_SERVER = r"(?:[A-Z_]+://)?(?:[\w.-]+|\[[\w:.%]+\])(?::([0-9]+))?"
_LAST_PORT = 65535
_TOPIC_NAME = "[A-Za-z0-9._-]{1,249}"
_ANY_OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": True}

TEXT = Kind("a text", _text, json=_A_TEXT)
COLUMN = one_text("the name of a column")
SOURCE = one_text("the name of a source")
PATH = Kind(
    "a path, or a URI such as 's3a://bucket/lake'", lambda value: without_file_scheme(_text(value)), json=_A_TEXT
)
LOCAL_PATH = Kind("a local path", lambda value: check_local(_text(value)), json=_A_TEXT)
LIMIT = Kind(SHARE_OR_ROWS, _limit, json={"type": ["string", "integer"]})
_DISTINCT = {"type": "array", "items": _A_TEXT, "uniqueItems": True}
TEXTS = Kind('a list of texts such as ["a", "b"]', _texts, None, json=_DISTINCT)
SOME_TEXTS = Kind('at least one text, such as ["a"]', _some_texts, None, json={**TEXTS.json, "minItems": 1})
TOPIC = Kind(
    "a name for a Kafka topic: at most 249 letters, digits, dots, underscores and hyphens",
    _topic,
    json={"type": "string", "pattern": f"^{_TOPIC_NAME}$"},
)
SERVERS = Kind("servers such as 'host:9092', separated by commas", _servers, json=_A_TEXT)
TOPICS = Kind(
    'at least one topic, such as ["a"]',
    lambda value: tuple(map(_topic, _some_texts(value))),
    None,
    json={**SOME_TEXTS.json, "items": TOPIC.json},
)
ANY_TEXT = _of_type(str, "a text, which may be empty", json={"type": "string"})
TEXT_OR_TEXTS = Kind(
    'a text, or a list of texts such as ["", "NULL"]',
    _text_or_texts,
    json={"type": ["string", "array"], "items": {"type": "string"}, "uniqueItems": True},
)
LISTS = Kind('a list of lists such as [["a", "b"], []]', _lists, None, json={"type": "array", "items": TEXTS.json})
FLAG = _of_type(bool, "true or false", _flag_or_text, json={"type": "boolean"})
TABLE = _of_type(dict, "a table of keys", None, json={"type": "object"})
NUMBER_OR_TEXT = Kind("a duration such as '1d', or a number", _number_or_text, json={"type": ["string", "number"]})
ADDRESS = Kind("an address such as 'https://host/path'", _address, json=_A_TEXT)
WEBHOOK = evolve(ADDRESS, read=_webhook)
DURATION = Kind("a duration such as '5m' or '1h30m'", _duration, json=_A_TEXT)
POSITIVE_DURATION = Kind("a duration longer than 0, such as '5m'", _positive_duration, json=_A_TEXT)
ZONE = Kind("an IANA time zone such as 'Asia/Shanghai' or 'UTC'", _zone, json=_A_TEXT)
SCHEMA = Kind(
    "a schema such as 'id bigint, at timestamp'", lambda value: Schema.parse(_text(value)), json={"type": "string"}
)
SETTINGS = Kind("a table of settings", _settings, None, json=_ANY_OBJECT)
OPTIONS = evolve(SETTINGS, inside=lambda table: dict.fromkeys(flatten(dict(table)), Key(TEXT)))
"""Settings of another program. A variable can override only those in the file, as its name does not give others."""
