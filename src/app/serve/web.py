"""The web application: pages, the API and metrics."""

from __future__ import annotations

import base64
import secrets
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...domain.errors import ConfigError, HeadwaterError, Transient, VersionExpired, VersionNotFound
from ..read.find_view import UnknownName
from .metrics import metrics_text
from .openapi import openapi

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .observer import Observer

_MOST_ROWS, _MOST_EPOCHS, _MOST_GROUPS = 1000, 1000, 32
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STATIC = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
    "page.svg": ("page.svg", "image/svg+xml"),
}
_OPEN = ("/healthz",)
"""Paths that need no token."""


def web_app(observer: Observer, *, token: str | None, hosts: list[str] | None) -> Starlette:
    """The application.

    Args:
        observer: reads the deployment.
        token: what requests must name; None for none.
        hosts: the host names that requests may name; None for any. On loopback, others come from a foreign page.
    """
    pages = _Pages(observer)
    routes = [
        *(Route(f"/{path}", pages.static) for path in _STATIC),
        Route("/healthz", pages.alive),
        Route("/readyz", pages.ready),
        Route("/metrics", pages.metrics),
        Route("/openapi.json", pages.describe),
        Route("/api/status", pages.status),
        Route("/api/graph", pages.graph),
        Route("/api/pipelines/{pipeline}/epochs", pages.epochs),
        Route("/api/pipelines/{pipeline}/versions", pages.versions),
        Route("/api/pipelines/{pipeline}/dead-letters", pages.dead_letters),
        Route("/api/views/{view}", pages.view),
        Route("/api/curves/{curve}", pages.curve),
    ]
    middleware = [Middleware(_Guard, token=token)]
    if hosts is not None:
        middleware.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=hosts))
    return Starlette(routes=routes, middleware=middleware, exception_handlers={HeadwaterError: _explain})


class _Pages:
    """Answers requests; the work is done in threads, because it blocks."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    async def static(self, request: Request) -> Response:
        name, kind = _STATIC[request.url.path.removeprefix("/")]
        content = files(__package__).joinpath(name).read_bytes()
        return Response(content, media_type=kind)

    async def alive(self, _: Request) -> Response:
        """Whether the server is alive, and its run if it has one. No error is named, as this path needs no token."""
        ended = self._observer.run_error is not None
        return JSONResponse({"status": "unavailable" if ended else "ok"}, 503 if ended else 200)

    async def ready(self, _: Request) -> Response:
        """Whether all pipelines can be read, have published, and have no alarm, and the run of this process goes on."""
        if ended := self._observer.run_error:
            return _unavailable({"": [ended]})
        try:
            found = await run_in_threadpool(self._observer.health)
        except HeadwaterError as error:
            return _unavailable({"": [str(error)]})
        problems = {
            each.pipeline: [*([] if each.publication or each.error else ["nothing is published yet"]), *each.alarms]
            for each in found
        }
        problems = {name: found for name, found in problems.items() if found}
        return _unavailable(problems) if problems else JSONResponse({"status": "ok", "problems": {}})

    async def metrics(self, _: Request) -> Response:
        found = await run_in_threadpool(self._observer.health)
        return Response(metrics_text(found), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def describe(self, _: Request) -> Response:
        return JSONResponse(openapi())

    async def status(self, _: Request) -> Response:
        return await _json(self._observer.status)

    async def graph(self, _: Request) -> Response:
        return await _json(self._observer.graph)

    async def epochs(self, request: Request) -> Response:
        count = _number(request, "count", 100, _MOST_EPOCHS)
        return await _json(self._observer.epochs, request.path_params["pipeline"], count)

    async def versions(self, request: Request) -> Response:
        count = _number(request, "count", 20, _MOST_EPOCHS)
        return await _json(self._observer.versions, request.path_params["pipeline"], count)

    async def dead_letters(self, request: Request) -> Response:
        return await _json(self._observer.dead_letters, request.path_params["pipeline"])

    async def view(self, request: Request) -> Response:
        asked = request.query_params
        how = {"at": asked.get("at") or None, "as_of": asked.get("as_of") or None}
        limit = _number(request, "limit", 50, _MOST_ROWS)
        return await _json(self._observer.view, request.path_params["view"], limit=limit, **how)

    async def curve(self, request: Request) -> Response:
        measure, groups = request.query_params.get("measure"), _number(request, "groups", 8, _MOST_GROUPS)
        return await _json(self._observer.curve, request.path_params["curve"], measure=measure, groups=groups)


class _Guard:
    """Asks for the token, and adds headers that keep other pages out."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        if scope["type"] == "http" and not self._allows(scope):
            refused = JSONResponse(
                {"error": "name the token of the server: Authorization: Bearer TOKEN, or as the password of any user"},
                401,
                {"WWW-Authenticate": 'Basic realm="headwater"'},
            )
            await refused(scope, receive, with_headers)
        else:
            await self._app(scope, receive, with_headers)

    def _allows(self, scope: Scope) -> bool:
        if self._token is None or scope["path"] in _OPEN:
            return True
        scheme, _, value = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"basic":
            value = _password(value)
        return secrets.compare_digest(value, self._token.encode())


def _password(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2]
    except NotBase64:
        return b""


def _unavailable(problems: Mapping[str, list[str]]) -> Response:
    return JSONResponse({"status": "unavailable", "problems": problems}, 503)


async def _json(read: Callable[..., Any], *given: Any, **named: Any) -> Response:
    return JSONResponse(await run_in_threadpool(read, *given, **named))


def _number(request: Request, name: str, usual: int, most: int) -> int:
    """A number of the query, between 1 and `most`.

    Raises:
        ConfigError: it is not such a number.
    """
    text = request.query_params.get(name, str(usual))
    if not text.isdecimal() or len(text) > len(str(most)) or not 1 <= int(text) <= most:
        raise ConfigError(f"{name}={text!r} is not a whole number between 1 and {most:,}")
    return int(text)


async def _explain(request: Request, error: Exception) -> Response:
    """An error of Headwater, as JSON."""
    return JSONResponse({"error": str(error)}, _code(request, error))


def _code(request: Request, error: Exception) -> int:
    if isinstance(error, Transient):
        return 503
    if isinstance(error, UnknownName | VersionNotFound | VersionExpired):
        return 404
    return 400 if isinstance(error, ConfigError) and request.query_params else 500
