"""Texts from files whose bytes may be damaged: whoever parses one can say which file it is, and what to do."""

from __future__ import annotations

KEEP_BYTES = "surrogateescape"
"""How to decode such a text: bytes that are not UTF-8 do not raise yet."""

LONE_SURROGATE = (
    r"(?<!\\)(?:\\\\)*\\u[dD]"
    r"(?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F])"
)
"""The regular expression, for Python and Java, of half of a surrogate pair in JSON: it stands for no character."""


def check_utf8(text: str) -> None:
    """Check a text that was decoded with `KEEP_BYTES`.

    Raises:
        ValueError: its bytes are not UTF-8.
    """
    text.encode("utf-8", KEEP_BYTES).decode("utf-8")
