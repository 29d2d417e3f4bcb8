"""Reads the schemas of messages from a schema registry, in Confluent's protocol; it needs no Kafka client."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from http.client import HTTPException, HTTPResponse, IncompleteRead
from time import monotonic
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from attrs import field, frozen

from ...domain.errors import ConfigError, SourceUnavailable

_ANSWER_SECONDS = 10.0
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_NOT_FOUND = 404
_REFUSED = (401, 403)


@frozen
class WriterSchema:
    """The schema that a message was written with.

    Args:
        parsed: the schema, as its kind parses it; None if it cannot be used.
        problem: why it cannot be used; empty if it can.
    """

    parsed: Any
    problem: str = ""


@frozen(eq=False)
class SchemaKind:
    """How the schemas of an encoding are asked for and parsed.

    Args:
        name: of the encoding; the registry writes it in capitals.
        parse: parses the registry's answer, and asks for the schemas that it refers to.
        refusals: what `parse` raises for a schema that is not valid.
        query: is added to each question.
    """

    name: str
    parse: Callable[[Registry, Mapping[str, Any]], Any]
    refusals: tuple[type[Exception], ...]
    query: str = ""


@frozen
class Registry:
    """A schema registry.

    Args:
        url: its address, such as ``http://registry:8081``.
        auth: ``user:password``, or a token without a colon; None: it asks for none.
    """

    url: str
    auth: str | None = field(default=None, repr=False)

    def schema(self, number: int, kind: SchemaKind) -> WriterSchema:
        """The schema of an id. It never changes, so it is asked for once per process.

        Args:
            number: the id.
            kind: how it is parsed.

        Raises:
            SourceUnavailable: the registry does not answer, or does not have the schema at present.
            ConfigError: the registry refuses the credentials, or cannot answer such a question.
        """
        return _schema(self, number, kind)

    def referred(self, reference: Mapping[str, Any], query: str = "") -> dict[str, Any]:
        """The answer for a schema that another one refers to; raises the same errors as `schema`."""
        subject, version = str(reference["subject"]), reference["version"]
        return self.answer(
            f"/subjects/{quote(subject, safe='')}/versions/{version}{query}", f"version {version} of subject {subject}"
        )

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
                content = _read(answer)
        except HTTPError as error:
            raise self._refusal(error, what) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise SourceUnavailable(
                f"{self.title} does not answer ({reason}); is it up, and is the source's `registry` right?"
            ) from error
        found = _parsed(content)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise SourceUnavailable(f"{self.title} is not one, by its answer; correct the source's `registry`")
        return found

    @property
    def title(self) -> str:
        """What messages call it."""
        address = urlsplit(self.url)
        return f"the schema registry at {address.hostname}" + (f":{address.port}" if address.port else "")

    def _refusal(self, error: HTTPError, what: str) -> Exception:
        if error.code == _NOT_FOUND:
            return SourceUnavailable(
                f"{self.title} has no {what}: register it, or set `registry` to the one that the producer uses; nothing"
                " is read until then"
            )
        if error.code in _REFUSED:
            return ConfigError(
                f"{self.title} refuses the credentials (HTTP status {error.code}): set registry_auth or"
                " registry_auth_file"
            )
        return SourceUnavailable(f"{self.title} cannot answer now (HTTP status {error.code}); look at its log")


def _read(answer: HTTPResponse) -> bytes:
    """The whole body of an answer, within `_ANSWER_SECONDS`: the timeout of a socket begins again with each part.

    Raises:
        TimeoutError: it takes longer.
        IncompleteRead: it ends too early.
    """
    until, size, content = monotonic() + _ANSWER_SECONDS, answer.length, b""
    while part := answer.read1():
        content += part
        if monotonic() > until:
            raise TimeoutError(f"its answer takes longer than {_ANSWER_SECONDS:g} seconds")
    if size is not None and len(content) < size:
        raise IncompleteRead(content, size - len(content))
    return content


def _parsed(content: bytes) -> Any:
    """The JSON of an answer; None if it is not JSON."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def _authorization(auth: str) -> str:
    return f"Basic {b64encode(auth.encode()).decode()}" if ":" in auth else f"Bearer {auth}"


@lru_cache(maxsize=4096)
def _schema(registry: Registry, number: int, kind: SchemaKind) -> WriterSchema:
    answer = registry.answer(f"/schemas/ids/{number}{kind.query}", f"schema {number}")
    if (found := answer.get("schemaType", "AVRO")) != kind.name.upper():
        return WriterSchema(None, f"it is of type {found}, not {kind.name.upper()}")
    try:
        return WriterSchema(kind.parse(registry, answer))
    except ConfigError:  # of the registry, not of the schema
        raise
    except kind.refusals as error:
        return WriterSchema(None, f"it is not a valid {kind.name} schema: {error}")
