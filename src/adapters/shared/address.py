"""Addresses of servers."""

from __future__ import annotations

from urllib.parse import urlsplit


def host_of(address: str) -> str | None:
    """The host of an address; None if it has none, or cannot be an address.

    >>> [host_of(address) for address in ("https://shop.example:9000/a", "https://", "http://a:0", "http://[a")]
    ['shop.example', None, None, None]
    """
    try:
        parts = urlsplit(address)
        return None if parts.port == 0 else parts.hostname
    except ValueError:  # also of the port
        return None
