"""Leases and the record of what expired, as small files on this machine's disk."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.shared.leases import LeaseFiles
from headwater.adapters.shared.local_files import LocalFiles
from headwater.domain.errors import BadInput, StoreUnavailable, VersionExpired
from headwater.domain.table.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
TOLD = ["8", "9", "10", "11"]


class Unsettled(LocalFiles):
    """Files that go while they are read, for as often as it is told."""

    times = 0

    def read(self) -> dict[str, str] | None:
        if Unsettled.times:
            Unsettled.times -= 1
            return None
        return super().read()


def lease_on(version: str, name: str = "lease") -> Lease:
    return Lease(name, "visit_rank.ranked", version, "a reader", NOW + timedelta(hours=1))


@pytest.fixture
def holds(tmp_path: Path) -> LeaseFiles:
    return LeaseFiles(str(tmp_path), LocalFiles)


@pytest.fixture
def unsettled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], LeaseFiles]:
    def settling_after(times: int) -> LeaseFiles:
        monkeypatch.setattr(Unsettled, "times", times)
        return LeaseFiles(str(tmp_path), Unsettled)

    return settling_after


@pytest.mark.parametrize("folder", ["leases", "expired"])
def test_a_file_whose_bytes_are_damaged_is_named(holds: LeaseFiles, tmp_path: Path, folder: str) -> None:
    holds.pin(lease_on("8"))
    holds.record_expiry(TOLD, ["11"], NOW, dry_run=False)
    (file,) = (tmp_path / ".headwater" / folder).iterdir()
    file.write_bytes(file.read_bytes().replace(b'"', b'"\xff', 1))
    with pytest.raises(BadInput, match=rf"{file.name} is damaged \(.*can't decode byte 0xff.*\): remove it"):
        holds.expired()


def test_what_is_older_than_the_newest_kept_goes(holds: LeaseFiles) -> None:
    assert holds.record_expiry(TOLD, ["8", "10"], NOW, dry_run=False) == {"9"}
    assert holds.record_expiry(TOLD, ["11"], NOW, dry_run=False) == {"8", "9", "10"}
    assert holds.expired() == {"8", "9", "10"}


@pytest.mark.parametrize("keep", [[], ["8"], ["12"]], ids=str)
def test_nothing_goes_where_nothing_older_is_told_of(holds: LeaseFiles, keep: list[str]) -> None:
    assert holds.record_expiry(TOLD, keep, NOW, dry_run=False) == set()
    assert holds.expired() == set()


def test_the_record_forgets_what_is_no_longer_told_of(holds: LeaseFiles) -> None:
    holds.record_expiry(TOLD, ["11"], NOW, dry_run=False)
    assert holds.record_expiry(TOLD[2:], ["11"], NOW, dry_run=False) == {"10"}
    assert holds.expired() == {"10"}


def test_a_lease_that_came_between_is_spared(holds: LeaseFiles, tmp_path: Path) -> None:
    """Its reader had looked at the record just before the version was put on it."""
    holds.record_expiry(TOLD, ["11"], NOW, dry_run=False)
    LocalFiles(tmp_path / ".headwater" / "leases").write("lease.json", lease_on("9").to_json())
    assert holds.record_expiry(TOLD, ["11"], NOW, dry_run=False) == {"8", "10"}
    holds.check_readable("9")


def test_a_lease_that_has_ended_is_removed_when_its_version_is_recorded(holds: LeaseFiles) -> None:
    """Its files are deleted next: a reader must not take them for those that it has leased."""
    holds.pin(lease_on("9"))
    ended = NOW + timedelta(hours=1)
    assert holds.record_expiry(TOLD, ["11"], ended, dry_run=True) == {"8", "9", "10"}
    assert holds.leases()
    assert holds.record_expiry(TOLD, ["11"], ended, dry_run=False) == {"8", "9", "10"}
    assert not holds.leases()
    with pytest.raises(VersionExpired):
        holds.check_readable("9")


def test_a_lease_on_what_is_to_go_is_taken_back(holds: LeaseFiles) -> None:
    holds.record_expiry(TOLD, ["11"], NOW, dry_run=False)
    with pytest.raises(VersionExpired, match=r"version 9 of .* has expired; read a newer one"):
        holds.pin(lease_on("9"))
    assert holds.leases() == ()


def test_files_that_go_while_they_are_read_are_read_again(unsettled: Callable[[int], LeaseFiles]) -> None:
    holds = unsettled(4)
    assert holds.leases() == ()
    holds.pin(lease_on("9"))
    assert holds.leases() == (lease_on("9"),)


def test_files_that_never_settle_are_told_of(unsettled: Callable[[int], LeaseFiles]) -> None:
    with pytest.raises(StoreUnavailable, match="changed 5 times while they were read; try again later"):
        unsettled(5).leases()
