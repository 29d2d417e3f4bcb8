"""A reader's claim on one version of a table, which upkeep honours until it ends."""

from __future__ import annotations

import json
from datetime import datetime

from attrs import asdict, frozen


@frozen
class Lease:
    """Who reads which version, until when.

    Args:
        id: names it; leases taken together on several tables share one.
        table: its name.
        version: the version that must stay readable.
        holder: who asked for it, for people to read.
        until: when it ends by itself (UTC).
    """

    id: str
    table: str
    version: str
    holder: str
    until: datetime

    def live(self, now: datetime) -> bool:
        """Whether it has not ended yet."""
        return now < self.until

    def to_json(self) -> str:
        """The lease as one line of JSON."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str) -> Lease:
        """Read `to_json` back."""
        raw = json.loads(text)
        return cls(**{**raw, "until": datetime.fromisoformat(raw["until"])})
