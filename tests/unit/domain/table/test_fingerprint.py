"""If settings of a published pipeline have changed, the message names them, with the old and the new value."""

from __future__ import annotations

from headwater.domain.table.fingerprint import changed_settings, digest, fingerprint


def test_a_fingerprint_of_before_settings_were_kept_decides_all_the_same() -> None:
    now = fingerprint("text", {"method": "rank"})
    assert changed_settings(digest(now), now) is None
    assert changed_settings("0123456789abcdef", now) == "settings (what they were is not on record)"


def test_what_does_not_decide_changes_nothing() -> None:
    assert changed_settings(fingerprint("text", {"size": "1d"}), fingerprint("text", {"size": "24h"})) is None
