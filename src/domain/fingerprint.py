"""What tables were built with: a digest that decides whether they can be continued, and the settings for messages."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGEST, _SETTINGS = "digest", "settings"


def fingerprint(text: str, settings: Mapping[str, object]) -> str:
    """The fingerprint of a service's settings, as JSON.

    Args:
        text: of everything that stored rows depend on; its digest decides.
        settings: the same by the names of the configuration, for messages.
    """
    digest_ = hashlib.sha256(text.encode()).hexdigest()[:16]
    told = {name: str(value) for name, value in settings.items()}
    return json.dumps({_DIGEST: digest_, _SETTINGS: told}, sort_keys=True, separators=(",", ":"))


def digest(fingerprint_: str) -> str:
    """The part of a fingerprint that decides; 0.1.0 kept nothing else for most services."""
    kept = json.loads(fingerprint_) if fingerprint_.startswith("{") else {}
    return str(kept.get(_DIGEST, fingerprint_))


def changed_settings(built: str, now: str) -> str | None:
    """Which settings differ between two fingerprints, with the old and the new value; None if none does.

    >>> changed_settings(fingerprint("a", {"method": "rank"}), fingerprint("b", {"method": "dense_rank"}))
    'settings: method rank -> dense_rank'
    """
    if digest(built) == digest(now):
        return None
    old, new = (json.loads(each).get(_SETTINGS, {}) if each.startswith("{") else {} for each in (built, now))
    names = [name for name in new if name in old and old[name] != new[name]]
    listed = ", ".join(f"{name} {old[name]} -> {new[name]}" for name in names)
    return f"settings: {listed}" if listed else "settings (what they were is not on record)"
