"""Reads the schemas of messages from a schema registry, in Confluent's protocol; it needs no Kafka client."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import lru_cache
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from attrs import field, frozen

from ...domain.errors import ConfigError, NotInstalled, SourceUnavailable

try:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as missing:
    raise NotInstalled("Avro needs fastavro: pip install 'headwater[avro]'") from missing

_ANSWER_SECONDS = 10.0
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_TIMES = ("date", "timestamp-millis", "timestamp-micros")
_NOT_FOUND = 404
_REFUSED = (401, 403)


@frozen
class WriterSchema:
    """The schema that a message was written with.

    Args:
        parsed: the schema, as fastavro parses it; None if it cannot be used.
        problem: why it cannot be used; empty if it can.
    """

    parsed: Any
    problem: str = ""


@frozen
class Registry:
    """A schema registry.

    Args:
        url: its address, such as ``http://registry:8081``.
        auth: ``user:password``, or a token without a colon; None: it asks for none.
    """

    url: str
    auth: str | None = field(default=None, repr=False)

    def schema(self, number: int, *, connect: bool = False) -> WriterSchema:
        """The schema of an id. It never changes, so it is asked for once per process.

        Args:
            number: the id.
            connect: whether times of Kafka Connect stay numbers, as the decoder of Debezium's messages reads them.

        Raises:
            SourceUnavailable: the registry does not answer, or does not have the schema at present.
            ConfigError: the registry refuses the credentials.
        """
        return _schema(self, number, connect)

    def answer(self, path: str, what: str) -> dict[str, Any]:
        """The answer to a question about schemas.

        Args:
            path: of the question.
            what: it asks for, for messages.

        Raises:
            SourceUnavailable: the registry does not answer, or does not have it.
            ConfigError: the registry refuses the credentials.
        """
        request = Request(self.url.rstrip("/") + path, headers={"Accept": _ACCEPTED, "User-Agent": "headwater"})  # noqa: S310 - http
        if self.auth is not None:
            request.add_unredirected_header("Authorization", _authorization(self.auth))
        try:
            with urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - http
                found = json.load(answer)
        except HTTPError as error:
            raise self._refusal(error, what) from error
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise SourceUnavailable(
                f"{self._name} does not answer ({reason}); is it up, and is the source's `registry` right?"
            ) from error
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise SourceUnavailable(f"{self._name} is not one, by its answer; correct the source's `registry`")
        return found

    @property
    def _name(self) -> str:
        address = urlsplit(self.url)
        return f"the schema registry at {address.hostname}" + (f":{address.port}" if address.port else "")

    def _refusal(self, error: HTTPError, what: str) -> Exception:
        if error.code == _NOT_FOUND:
            return SourceUnavailable(
                f"{self._name} has no {what}: register it, or set `registry` to the one that the producer uses; nothing"
                " is read until then"
            )
        if error.code in _REFUSED:
            return ConfigError(
                f"{self._name} refuses the credentials (HTTP status {error.code}): set registry_auth or"
                " registry_auth_file"
            )
        return SourceUnavailable(f"{self._name} cannot answer now (HTTP status {error.code}); look at its log")


def _authorization(auth: str) -> str:
    return f"Basic {b64encode(auth.encode()).decode()}" if ":" in auth else f"Bearer {auth}"


@lru_cache(maxsize=4096)
def _schema(registry: Registry, number: int, connect: bool) -> WriterSchema:  # noqa: FBT001 - a part of the cache's key
    answer = registry.answer(f"/schemas/ids/{number}", f"schema {number}")
    if (kind := answer.get("schemaType", "AVRO")) != "AVRO":
        return WriterSchema(None, f"it is of type {kind}, not AVRO")
    try:
        return WriterSchema(_parsed(registry, answer, {}, connect=connect))
    except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
        return WriterSchema(None, f"it is not a valid Avro schema: {error}")


def _parsed(registry: Registry, answer: dict[str, Any], named: dict[str, Any], *, connect: bool) -> Any:
    """Parse a schema after those that it refers to.

    Args:
        registry: where it was found.
        answer: the schema as the registry returned it.
        named: the named types that are known; those of the schema are added.
        connect: see `Registry.schema`.
    """
    for each in answer.get("references") or ():
        subject, version = quote(str(each["subject"]), safe=""), each["version"]
        found = registry.answer(
            f"/subjects/{subject}/versions/{version}", f"version {version} of subject {each['subject']}"
        )
        _parsed(registry, found, named, connect=connect)
    schema = json.loads(answer["schema"])
    return parse_schema(_with_numbers(schema) if connect else schema, named_schemas=named)


def _with_numbers(schema: Any) -> Any:
    """A schema in which times of Kafka Connect are numbers, not logical types of Avro."""
    if isinstance(schema, list):
        return [_with_numbers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_time = "connect.name" in schema and schema.get("logicalType") in _TIMES
    return {name: _with_numbers(each) for name, each in schema.items() if not (is_time and name == "logicalType")}
