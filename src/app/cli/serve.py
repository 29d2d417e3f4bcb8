"""The command ``headwater serve``: a status page, a JSON API and metrics of a deployment."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING

import click

from ...domain.errors import ConfigError, describe_error
from ..api import Headwater
from ..registry.packages import require
from ..run.report import EpochReport
from ..sources.secrets import read_secret_file
from .arguments import command
from .console import ERROR, choose_report, print_message
from .durable import load_durable
from .signals import graceful_stop

if TYPE_CHECKING:
    import uvicorn

    from ..serve.observer import Observer

_TOKEN = "HEADWATER_TOKEN"  # noqa: S105 - the name of a variable
_LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"]


@command
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=8080, help="the port (8080); 0 for any")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
@click.option("--token-file", metavar="FILE", type=click.Path(), help=f"requests must name its token; or {_TOKEN}")
@click.option("--run/--read-only", "running", default=False, help="also run the pipelines, or only read (default)")
def serve(*, config: str, port: int, host: str, token_file: str | None, running: bool) -> None:
    """Serve a status page, a JSON API and metrics; reads only."""
    with ExitStack() as needed:
        for package in ("starlette", "uvicorn", "prometheus_client"):
            needed.enter_context(require(package, extra="web"))
        import uvicorn

        from ..serve.web import web_app
    from ..serve.observer import Observer

    token = _read_token(token_file)
    local = _is_loopback(host)
    if not local and token is None:
        raise ConfigError(
            f"--host {host}: others can reach this address, so requests need a token: set {_TOKEN}, or --token-file"
        )
    with ExitStack() as closing:
        observer = Observer(closing.enter_context(Headwater(load_durable(config))))
        app = web_app(observer, token=token, hosts=[*_LOOPBACK, host] if local else None)
        server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", lifespan="off"))
        worker = Headwater(load_durable(config), report=_reporting(observer)) if running else observer.headwater
        # The server handles a signal first, and hands it on when it has ended.
        closing.enter_context(graceful_stop(worker, "this epoch" if running else "open requests"))
        if running:
            closing.callback(_Run(worker, server, observer).stop)
        _serve(server, host)


class _Run:
    """Runs the pipelines beside the server; an error of the run ends both."""

    def __init__(self, headwater: Headwater, server: uvicorn.Server, observer: Observer) -> None:
        self._headwater, self._server, self._observer = headwater, server, observer
        self._thread = ThreadPoolExecutor(1, "run")
        self._run = self._thread.submit(headwater.run)
        self._run.add_done_callback(self._end_server)

    def _end_server(self, run: Future[None]) -> None:
        if (error := run.exception()) is not None:
            self._observer.run_error = f"the run has ended: {describe_error(error)}"
            self._server.should_exit = True
            print_message(f"headwater: {self._observer.run_error}", ERROR)

    def stop(self) -> None:
        """Stop after the current epoch; raise the error that has ended the run, if any."""
        self._headwater.stop()
        self._thread.shutdown()
        self._headwater.close()
        self._run.result()


def _reporting(observer: Observer) -> Callable[[EpochReport], None]:
    show = choose_report()

    def report(each: EpochReport) -> None:
        observer.take(each)
        show(each)

    return report


def _serve(server: uvicorn.Server, host: str) -> None:
    try:
        socket = server.config.bind_socket()
    except SystemExit as ended:  # uvicorn has logged why
        raise ConfigError(
            f"the server cannot listen on --host {host} --port {server.config.port}; choose another port, or an address"
            " of this machine"
        ) from ended
    socket.listen()  # who reads the message below may connect at once
    shown = f"[{host}]" if ":" in host else host
    print_message(f"headwater: serving on http://{shown}:{socket.getsockname()[1]}")
    server.run(sockets=[socket])


def _read_token(file: str | None) -> str | None:
    if file is None:
        return os.environ.get(_TOKEN, "").strip() or None
    try:
        return read_secret_file(file)
    except ConfigError as error:
        raise ConfigError(f"--token-file {error}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
