"""Posts JSON to an address, in a thread of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPException
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from attrs import define, field

_log = logging.getLogger(__name__)
_TRIES = 3
_WAIT_SECONDS = 1.0


@define(eq=False)
class Webhook:
    """Posts what it is given, in order. What cannot be posted after three tries is dropped with a warning.

    Args:
        address: ``http:`` or ``https:``; it may contain a secret, so no message has more of it than its host.
        timeout: of one try.
    """

    address: str = field(repr=False)
    timeout: timedelta
    _waiting: SimpleQueue[Mapping[str, Any] | None] = field(init=False, factory=SimpleQueue)
    _closing: Event = field(init=False, factory=Event)
    _thread: Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._thread = Thread(target=self._work, name="headwater-webhook", daemon=True)
        self._thread.start()

    def post(self, event: Mapping[str, Any]) -> None:
        """Post an event soon; return at once."""
        self._waiting.put(event)

    def close(self) -> None:
        """Post what is waiting, for at most the time of two tries."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(2 * self.timeout.total_seconds())

    def _work(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._deliver(event)

    def _deliver(self, event: Mapping[str, Any]) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._send(event)
            except (OSError, ValueError, HTTPException) as error:  # a network that is down, an answer that is not HTTP
                if left and not self._closing.wait(_WAIT_SECONDS):
                    continue
                _log.warning("%s took no alert: %s; it is lost: %s", self._host, _reason(error), event.get("message"))
            return

    def _send(self, event: Mapping[str, Any]) -> None:
        # A file name that is not UTF-8 has surrogates, which many readers of JSON refuse.
        body = json.dumps(event, ensure_ascii=False).encode(errors="replace")
        request = Request(self.address, body, {"Content-Type": "application/json", "User-Agent": "headwater"})  # noqa: S310 - http
        with build_opener(_NoRedirect).open(request, timeout=self.timeout.total_seconds()) as answer:
            answer.read()

    @property
    def _host(self) -> str:
        return f"the webhook at {urlsplit(self.address).hostname}"


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the alerts would go to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _reason(error: Exception) -> str:
    """Why it failed, without the address."""
    if isinstance(error, HTTPError):
        return f"HTTP status {error.code}"
    return str(getattr(error, "reason", None) or type(error).__name__)
