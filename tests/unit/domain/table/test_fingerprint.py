"""If settings of a published pipeline have changed, the message names them, with the old and the new value."""

from __future__ import annotations

from headwater.domain.table.fingerprint import (
    CHANGES,
    add_found_by,
    changed_decoding,
    changed_settings,
    digest,
    fingerprint,
    fix_found_by,
    join_parts,
)


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


def test_rows_of_before_it_was_recorded_how_they_are_found_were_read_as_in_the_latest_epoch() -> None:
    now = fingerprint("text", {}, found_by={"time_zone": "Asia/Tokyo", "metadata": "at = commit_time"})
    old = fingerprint("text", {}, decoding={"time_zone": "UTC", "metadata": "none"})
    found = "settings of its source: time_zone UTC"
    assert changed_settings(fix_found_by(old), fix_found_by(now)) == f"{found} -> Asia/Tokyo"
    later = add_found_by(add_found_by(old, now), now)
    assert changed_settings(fix_found_by(later), fix_found_by(now)) == f"{found}, later Asia/Tokyo -> Asia/Tokyo"
    for older in (digest(old), fingerprint("text", {})):
        assert changed_settings(fix_found_by(older), fix_found_by(now)) is None
        assert add_found_by(older, now) == now


def test_rows_that_were_all_added_are_not_found_by_changes() -> None:
    added = fingerprint("text", {}, decoding={"row_kind": "none"})
    now = fingerprint("text", {}, found_by={CHANGES: "yes"})
    assert changed_settings(fix_found_by(added), fix_found_by(now)) == f"settings of its source: {CHANGES} no -> yes"
    later = fix_found_by(add_found_by(added, now))
    assert changed_settings(later, fix_found_by(now)) == f"settings of its source: {CHANGES} no, later yes -> yes"


def test_what_does_not_decide_changes_nothing() -> None:
    assert changed_settings(fingerprint("text", {"size": "1d"}), fingerprint("text", {"size": "24h"})) is None


def test_the_digest_of_a_wide_table_is_the_text_of_before_the_reading_was_kept() -> None:
    before = '{"":"f6ae0ab2","info":"73e95c29","info.name":"e468b634"}'
    reading = {"(decoding)": {"row_kind of topic info": "kind"}, "(fixed decoding)": {}}
    now = join_parts({"": "f6ae0ab2", "info.name": "e468b634", "info": "73e95c29", **reading})
    assert digest(now) == digest(before) == before
