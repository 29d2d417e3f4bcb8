"""If settings of a published pipeline have changed, the message names them, with the old and the new value."""

from __future__ import annotations

from headwater.domain.table.fingerprint import changed_decoding, changed_settings, digest, fingerprint, join_parts


def test_a_fingerprint_of_before_settings_were_kept_decides_all_the_same() -> None:
    now = fingerprint("text", {"method": "rank"})
    assert changed_settings(digest(now), now) is None
    assert changed_settings("0123456789abcdef", now) == "settings (what they were is not on record)"


def test_a_fingerprint_of_before_the_reading_was_kept_goes_on() -> None:
    zone = {"time_zone": "UTC"}
    before, now = fingerprint("text", {}), fingerprint("text", {}, decoding=zone, fixed_decoding=zone)
    assert (digest(before), changed_settings(before, now), changed_decoding(before, now)) == (digest(now), None, None)
    edited = fingerprint("text", {}, decoding=zone, fixed_decoding={"time_zone": "Asia/Tokyo"})
    assert changed_settings(now, edited) == "settings of its source: time_zone UTC -> Asia/Tokyo"


def test_what_does_not_decide_changes_nothing() -> None:
    assert changed_settings(fingerprint("text", {"size": "1d"}), fingerprint("text", {"size": "24h"})) is None


def test_the_digest_of_a_wide_table_is_the_text_of_before_the_reading_was_kept() -> None:
    before = '{"":"f6ae0ab2","info":"73e95c29","info.name":"e468b634"}'
    reading = {"(decoding)": {"row_kind of topic info": "kind"}, "(fixed decoding)": {}}
    now = join_parts({"": "f6ae0ab2", "info.name": "e468b634", "info": "73e95c29", **reading})
    assert digest(now) == digest(before) == before
