"""Column names as Hudi stores them: its schemas are Avro's, whose names are letters, digits and underscores."""

from __future__ import annotations

import re

KEY = "_headwater_key"
SEQUENCE = "_headwater_sequence"
PARTITION = "_headwater_partition"
DELETED = "_hoodie_is_deleted"

# A name that looks escaped, or is Hudi's or ours, has its first underscore escaped, so that no two names become one.
_ESCAPED = re.compile(r"[^A-Za-z0-9_]|^[0-9]|^_(?=hoodie|headwater)|_(?=x[0-9a-f]+_)", re.IGNORECASE)


def stored_name(name: str) -> str:
    """The name that a column is stored by.

    >>> stored_name("amount"), stored_name("k y"), stored_name("_x20_"), stored_name("2nd")
    ('amount', 'k_x20_y', '_x5f_x20_', '_x32_nd')
    """
    return _ESCAPED.sub(lambda match: f"_x{ord(match[0]):x}_", name)
