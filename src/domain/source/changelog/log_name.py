"""The name of a database's log: a text that only one log has."""

from __future__ import annotations

import json
import re
from functools import lru_cache

LISTED = '["'
"""What a name that is a list begins with, and no other name contains."""
_GTID_SERVER = "[0-9A-Fa-f]+(?:-[0-9A-Fa-f]+)+(?::[^ ]+)?"
_SERVER = rf"(?: ([0-9]+))?(?: ({_GTID_SERVER}))?"
_PLAIN = {
    3: re.compile(rf"(.*?){_SERVER}", re.DOTALL),
    4: re.compile(rf"(.*?)(?: ([^ ]+))??{_SERVER}", re.DOTALL),
}
"""How a plain name is divided into its parts, by their number."""
_RESERVED = re.compile(r'\["|(?:^| )#0$|[\x00-\x1f\x7f-\x9f\u2028\u2029]')
"""The names of lists, the marker of a log that began again (`retraction.jumps`), and control characters, with which a
log that begins again is numbered.
"""


@lru_cache(64)
def name_log(base: str | None, *servers: str | int | None) -> str:
    """Return the name of a log.

    A plain name has the known parts, separated by spaces. If it could be the name of another log too, or has a
    reserved form, the name is the list of all parts as JSON.

    Args:
        base: the base name of the log's files.
        servers: the server's number and the server of the GTID; in messages with a topic's prefix, that prefix first.

    >>> name_log("binlog", 223344, "3e11fa47-71ca-11e1")
    'binlog 223344 3e11fa47-71ca-11e1'
    >>> name_log("bin 5", None, None), name_log("bin", 5, None)
    ('["bin 5", null, null]', 'bin 5')
    """
    parts = tuple(None if each in (None, "") else str(each) for each in (base, *servers))
    plain = " ".join(filter(None, parts))
    divided = _PLAIN[len(parts)].fullmatch(plain)
    is_plain = divided and (divided[1] or None, *divided.groups()[1:]) == parts and not _RESERVED.search(plain)
    return plain if is_plain else json.dumps([parts[0] or "", *parts[1:]])


def plain_name(name: str) -> str | None:
    """Return the plain name of a log whose name is a list; None if it is not a list.

    Earlier versions gave the log its plain name.

    Args:
        name: the name of the log, which may follow other text, such as its partition in Kafka. That text stays.
    """
    at = name.find(LISTED)
    return None if at < 0 else name[:at] + " ".join(filter(None, json.loads(name[at:])))
