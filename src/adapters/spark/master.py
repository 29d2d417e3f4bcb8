"""Reads a master's address: whether work stays on this machine, and from which address the master is reached."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...domain.errors import ClusterUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOPBACK = "127.0.0.1"
_STANDALONE = "spark://"
_PORT = 7077
_ANSWERS_WITHIN = 5.0


def master_of(context: SparkContext) -> str:
    """The master of a context."""
    return str(context.master)


def is_local(master: str) -> bool:
    """Whether all executors run on this machine, with this machine's Python."""
    return master.startswith("local")


def is_one_process(master: str) -> bool:
    """Whether driver and executor are one process, so that neither is lost without the other."""
    return master == "local" or master.startswith("local[")


def addresses(master: str) -> Iterator[tuple[str, int]]:
    """Host and port of each standalone master; empty for other cluster managers."""
    if master.startswith(_STANDALONE):
        for each in master.removeprefix(_STANDALONE).split(","):
            parts = urlsplit(f"//{each.strip()}")
            if parts.hostname:
                yield parts.hostname, parts.port or _PORT


def address_towards(master: str) -> str | None:
    """This machine's address on the route to a standalone master; None if there is none, or for other masters.

    A master on loopback is reached from loopback, any other from the network that it is in.
    """
    for host, port in addresses(master):
        try:
            family, kind, _, _, target = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(target)  # a datagram socket: this selects a route and sends nothing
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def check_answers(master: str) -> None:
    """Connect to a standalone master. Spark itself would try for a minute and not report the reason.

    Raises:
        ClusterUnavailable: no address of the master accepts a connection.
    """
    refusals = [refusal for each in addresses(master) if (refusal := _refusal(*each)) is not None]
    if refusals and len(refusals) == len(list(addresses(master))):
        raise ClusterUnavailable(
            f"spark.master = {master} does not answer ({'; '.join(refusals)}): start the master, or correct the"
            " address, which is at the top of the master's web page as URL"
        )


def _refusal(host: str, port: int) -> str | None:
    """The reason why a master does not accept a connection; None if it does."""
    try:
        socket.create_connection((host, port), _ANSWERS_WITHIN).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
