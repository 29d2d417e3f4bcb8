"""What an object store says of a request that it refuses, out of the errors of obstore and Polars."""

from __future__ import annotations

import re
from html import unescape

_DEBUG = "\n\nDebug source:"
"""Where obstore begins to print the inside of an error."""
_MARKUP = re.compile(r"\ufeff?<[?!a-z]", re.IGNORECASE)
_SHOWN = tuple(re.compile(f"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("Code", "Message"))


def object_store_reason(error: Exception) -> str:
    """The reason in one line: what the client says, and the store's answer.

    Of an answer in XML or HTML only its `Code` and `Message` are taken, if it has them: what else is in it may be a
    key id or a token.
    """
    text = str(error).partition(_DEBUG)[0]
    if markup := _MARKUP.search(text):
        answer = text[markup.start() :]
        parts = (unescape(found[1]) for name in _SHOWN if (found := name.search(answer)))
        text = ": ".join([text[: markup.start()].rstrip(" :"), *parts])
    return " ".join(text.split())
