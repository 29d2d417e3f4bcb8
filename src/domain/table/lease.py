"""Leases: a leased version of a table does not expire before the lease ends."""

from __future__ import annotations

import json
from datetime import datetime

from attrs import asdict, frozen


@frozen
class Lease:
    """A reader's lease on one version of one table.

    Args:
        id: its name; the leases of one pin, on several tables, share it.
        table: the table's name.
        version: the version that must stay readable.
        holder: who requested it, for display.
        until: its end, if it is not released before (UTC).
    """

    id: str
    table: str
    version: str
    holder: str
    until: datetime

    def live(self, now: datetime) -> bool:
        return now < self.until

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str) -> Lease:
        raw = json.loads(text)
        return cls(**{**raw, "until": datetime.fromisoformat(raw["until"])})
