"""Fingerprints of the settings that tables were built with.

The digest decides whether the tables can be continued; the settings are for messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

_DIGEST, _SETTINGS = "digest", "settings"


def fingerprint(text: str, settings: Mapping[str, object]) -> str:
    """The fingerprint of a service's settings, as JSON.

    Args:
        text: everything that stored rows depend on; two fingerprints are equal if the digests of this text are.
        settings: the same settings by their configuration keys, for messages.
    """
    digest_ = hashlib.sha256(text.encode()).hexdigest()[:16]
    texts = {name: str(value) for name, value in settings.items()}
    return json.dumps({_DIGEST: digest_, _SETTINGS: texts}, sort_keys=True, separators=(",", ":"))


def digest(fingerprint_: str) -> str:
    """The digest in a fingerprint. Version 0.1.0 stored only the digest for most services."""
    stored = json.loads(fingerprint_) if fingerprint_.startswith("{") else {}
    return str(stored.get(_DIGEST, fingerprint_))


def changed_settings(built: str, now: str) -> str | None:
    """The settings that differ between two fingerprints, with old and new values, for display; None if they are equal.

    >>> changed_settings(fingerprint("a", {"method": "rank"}), fingerprint("b", {"method": "dense_rank"}))
    'settings: method rank -> dense_rank'
    """
    if digest(built) == digest(now):
        return None
    old, new = (json.loads(each).get(_SETTINGS, {}) if each.startswith("{") else {} for each in (built, now))
    names = [name for name in new if name in old and old[name] != new[name]]
    listed = ", ".join(f"{name} {old[name]} -> {new[name]}" for name in names)
    return f"settings: {listed}" if listed else "settings (what they were is not on record)"
