"""The filter of messages by table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from attrs import define, field

from ..conversion import Undecodable

_REMEMBERED = 1024


@define(eq=False)
class Tables:
    """The tables of a source.

    Args:
        patterns: see `ChangeSpec.tables`.
        passed_over: counts the messages of other tables, by ``database.table``.
    """

    patterns: tuple[str, ...]
    passed_over: Counter[str] = field(factory=Counter)
    _matches: Callable[[str, str], bool] = field(init=False)

    def __attrs_post_init__(self) -> None:
        compiled = [re.compile(each) for each in self.patterns]
        self._matches = lru_cache(_REMEMBERED)(
            lambda space, table: any(each.fullmatch(f"{space}.{table}") for each in compiled)
        )

    def want(self, space: object, table: object) -> bool:
        """Whether the messages of a table are read.

        Args:
            space: its database or schema.
            table: its name.

        Raises:
            Undecodable: the message does not name its table, and there are patterns.
        """
        if not self.patterns:
            return True
        if type(space) is not str or type(table) is not str:
            raise Undecodable("it does not say of which table it is, so `tables` cannot choose")
        if wanted := self._matches(space, table):
            return wanted
        self.passed_over[f"{space}.{table}"] += 1
        return False
