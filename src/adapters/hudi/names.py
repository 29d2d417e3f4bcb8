"""Column names as Hudi stores them: Avro names, made of letters, digits and underscores."""

from __future__ import annotations

import re

KEY = "_headwater_key"
SEQUENCE = "_headwater_sequence"
PARTITION = "_headwater_partition"
DELETED = "_hoodie_is_deleted"

# Escape the first underscore of a name that looks escaped or reserved, so that stored names stay unique.
_ESCAPED = re.compile(r"[^A-Za-z0-9_]|^[0-9]|^_(?=hoodie|headwater)|_(?=x[0-9a-f]+_)", re.IGNORECASE)


def stored_name(name: str) -> str:
    """The name under which a column is stored.

    >>> stored_name("amount"), stored_name("k y"), stored_name("_x20_"), stored_name("2nd")
    ('amount', 'k_x20_y', '_x5f_x20_', '_x32_nd')
    """
    return _ESCAPED.sub(lambda match: f"_x{ord(match[0]):x}_", name)
