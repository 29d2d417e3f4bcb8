"""Column names as Hudi stores them: Avro names, made of letters, digits and underscores."""

from __future__ import annotations

import re

from ...domain.errors import ConfigError
from ...domain.table.spec import TableSpec

KEY = "_headwater_key"
SEQUENCE = "_headwater_sequence"
PARTITION = "_headwater_partition"
DELETED = "_hoodie_is_deleted"
GONE = "_headwater_gone"
"""boolean, of rows that were read: whether a row of a log only deletes its key."""
_HUDIS_OWN = "_hoodie_"

# Escape the first underscore of a name that looks escaped or reserved, so that stored names stay unique.
_ESCAPED = re.compile(r"[^A-Za-z0-9_]|^[0-9]|^_(?=hoodie|headwater)|_(?=x[0-9a-f]+_)", re.IGNORECASE)


def stored_name(name: str) -> str:
    """The name under which a column is stored.

    >>> stored_name("amount"), stored_name("k y"), stored_name("_x20_"), stored_name("2nd")
    ('amount', 'k_x20_y', '_x5f_x20_', '_x32_nd')
    """
    return _ESCAPED.sub(lambda match: f"_x{ord(match[0]):x}_", name)


def check_column_names(spec: TableSpec) -> None:
    """Refuse names of hidden columns, and of Hudi's own.

    Raises:
        ConfigError: with the first such name.
    """
    for name in spec.schema.names:  # Spark does not tell capitals from small letters
        if name.lower().startswith(_HUDIS_OWN) or name.lower() in {KEY, SEQUENCE, PARTITION, GONE}:
            raise ConfigError(
                f"table {spec.name}: on Hudi no column may be named {name!r}, as one of Hudi's or Headwater's own is:"
                " give it another name"
            )
