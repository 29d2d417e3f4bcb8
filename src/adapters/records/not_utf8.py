"""What bytes seem to be that are not UTF-8, with the remedy."""

from __future__ import annotations

_OTHER_BYTES = {
    b"\x1f\x8b": "it seems to be compressed by gzip: then its name must end in .gz",
    b"\x28\xb5\x2f\xfd": "it seems to be compressed by Zstandard: then its name must end in .zst",
    b"\xff\xfe": "it seems to be UTF-16: convert it to UTF-8",
    b"\xfe\xff": "it seems to be UTF-16: convert it to UTF-8",
}
"""What is known of bytes by the first of them, with the remedy."""


def explain_not_utf8(content: bytes, error: UnicodeDecodeError) -> str:
    """Why bytes are not UTF-8, with the remedy.

    Args:
        content: the bytes of a file, or of a line of it.
        error: the error in decoding them.
    """
    return f"not UTF-8: {error.reason} at byte {error.start}; {other_format(content) or 'convert it to UTF-8'}"


def other_format(content: bytes) -> str | None:
    """What bytes seem to be that are no text in UTF-8, with the remedy; None if their beginning does not say."""
    return next((found for start, found in _OTHER_BYTES.items() if content.startswith(start)), None)
