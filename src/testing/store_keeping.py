"""Contract: versions expire on request, never under a lease. Reading an expired one fails before any row is read."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from ..domain.errors import VersionExpired, VersionNotFound
from ..domain.ports import Expiry, KeptStore, Version
from ..domain.table.lease import Lease
from ..domain.table.spec import Layout
from .store_harness import StoreHarness, TableDriver, bag, both_layouts, mark_of, spec_of

NAMES = spec_of("id bigint, name string", ["id"])
PARTED = spec_of("part string, id bigint, n int", ["part", "id"], partition_by=["part"])
NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def expire(table: TableDriver, keep: Collection[Version], now: datetime = NOW, *, dry_run: bool = False) -> Expiry:
    return table.store.expire(table.spec.name, keep, now=now, dry_run=dry_run)


def pin(table: TableDriver, version: Version, until: datetime = NOW + HOUR, name: str = "lease-1") -> Lease:
    lease = Lease(name, table.spec.name, version, 'a reader\'s "ü" \\ 数', until)
    table.store.pin(lease)
    return lease


def three_versions(
    harness: StoreHarness, store: KeptStore, layout: Layout = Layout.LOG
) -> tuple[TableDriver, list[Version]]:
    """A table with three versions, of row 1, of rows 1 and 2, and of row 3 only."""
    table = harness.table(store, evolve(NAMES, layout=layout))
    versions = [table.commit(append=[(1, "a")]), table.commit(append=[(2, "b")]), table.commit(overwrite=[(3, "c")])]
    return table, versions


class ExpiringContract(StoreHarness):
    def test_what_is_not_kept_goes(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        expiry = expire(table, [second, third])
        assert expiry.versions[-1:] == (first,)
        assert (table.rows_at(second), table.rows_at(third)) == (bag((1, "a"), (2, "b")), bag((3, "c")))
        with pytest.raises(VersionExpired):
            table.rows_at(first)
        with pytest.raises(VersionExpired):
            store.size(NAMES.name, first)
        assert first in store.expired(NAMES.name)
        assert not {second, third}.intersection(store.expired(NAMES.name))
        assert expire(table, [third]).versions == (second,)
        assert table.rows_at(third) == bag((3, "c"))
        assert table.rows_at(None) == bag()

    @both_layouts
    def test_work_goes_on_behind_what_went(self, store: KeptStore, layout: Layout) -> None:
        table, (*_, third) = three_versions(self, store, layout)
        assert expire(table, [third]).files > 0
        table.commit(merge=[(3, "d")], append=[(4, "e")])
        assert table.rows() == bag((3, "d"), (4, "e"))
        assert table.changes(third, table.newest or third) == bag((3, "c", "-U"), (3, "d", "+U"), (4, "e", "+I"))
        table.rollback(third)
        assert table.rows() == bag((3, "c"))

    def test_a_dry_run_tells_and_changes_nothing(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        plan = expire(table, [third], dry_run=True)
        assert {first, second}.issubset(plan.versions)
        assert plan.files > 0
        assert plan.size > 0
        assert table.rows_at(first) == bag((1, "a"))
        assert not store.expired(NAMES.name)
        assert expire(table, [third]) == plan
        again = expire(table, [third])
        assert (again.versions, again.files, again.size) == ((), 0, 0)

    def test_nothing_goes_that_is_newer_than_what_is_kept(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        expire(table, [])
        expire(table, [first])
        assert table.rows_at(first) == bag((1, "a"))
        assert table.rows_at(second) == bag((1, "a"), (2, "b"))
        expire(table, [second])
        assert table.rows_at(third) == bag((3, "c"))

    def test_versions_that_went_are_still_told(self, store: KeptStore) -> None:
        table, versions = three_versions(self, store)
        expire(table, versions[-1:])
        reopened = self.reopen()
        reopened.ensure(table.spec)
        assert reopened.version(NAMES.name, versions[0]).mark == mark_of(1)
        assert {commit.version for commit in reopened.versions(NAMES.name)}.issuperset(versions)
        assert set(versions[:2]).issubset(reopened.expired(NAMES.name))

    def test_what_went_can_be_used_for_nothing(self, store: KeptStore) -> None:
        table, (first, _, third) = three_versions(self, store)
        expire(table, [third])
        with pytest.raises(VersionExpired):
            table.changes(first, third)
        with pytest.raises(VersionExpired):
            table.changes(None, first)
        with pytest.raises(VersionExpired):
            table.rollback(first)
        with pytest.raises(VersionNotFound):
            store.read(NAMES.name, Version("999999"))
        assert table.rows() == bag((3, "c"))

    def test_files_that_kept_versions_share_stay(self, store: KeptStore) -> None:
        table = self.table(store, evolve(PARTED, layout=Layout.MERGED))
        values = ["a b%:/=é数", "x'y\"z\\{}#?+&;,", "2024-01-01 00:00:00", "%2F..", "plain"]
        table.commit(append=[(value, 1, 1) for value in values])
        table.commit(merge=[(values[0], 1, 2)])
        table.commit(merge=[(values[1], 1, 2)])
        newest = table.commit(delete=[(values[2], 1)])
        expire(table, [newest], now=NOW + timedelta(days=36_500))
        assert table.rows() == bag((values[0], 1, 2), (values[1], 1, 2), *((value, 1, 1) for value in values[3:]))


class LeasesContract(StoreHarness):
    def test_a_lease_comes_back_as_it_went(self, store: KeptStore) -> None:
        table, (first, second, _) = three_versions(self, store)
        late = pin(table, second, NOW + HOUR + timedelta(microseconds=1), "b")
        early = pin(table, first, name="a")
        found = self.reopen()
        found.ensure(table.spec)
        assert sorted(found.leases(NAMES.name), key=lambda lease: lease.id) == [early, late]
        found.unpin(NAMES.name, "a")
        found.unpin(NAMES.name, "a")
        assert list(store.leases(NAMES.name)) == [late]

    def test_what_is_leased_stays_until_the_lease_is_taken_back(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        lease = pin(table, first)
        assert first not in expire(table, [third], dry_run=True).versions
        assert expire(table, [third]).versions[-1:] == (second,)
        assert table.rows_at(first) == bag((1, "a"))
        with pytest.raises(VersionExpired):
            table.rows_at(second)
        store.unpin(NAMES.name, lease.id)
        assert expire(table, [third]).versions[-1:] == (first,)
        with pytest.raises(VersionExpired):
            table.rows_at(first)

    def test_a_lease_ends_by_itself(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        pin(table, first)
        pin(table, second, name="shorter")
        pin(table, second, NOW + 2 * HOUR, "longer")
        expire(table, [third], NOW + HOUR - timedelta(microseconds=1))
        assert table.rows_at(first) == bag((1, "a"))
        expire(table, [third], NOW + HOUR)
        assert [lease.id for lease in store.leases(NAMES.name) if lease.live(NOW + HOUR)] == ["longer"]
        assert first not in {lease.version for lease in store.leases(NAMES.name)}
        assert table.rows_at(second) == bag((1, "a"), (2, "b"))
        with pytest.raises(VersionExpired):
            table.rows_at(first)

    def test_an_expiry_by_a_clock_that_is_ahead_leaves_the_leases_of_versions_that_stay(self, store: KeptStore) -> None:
        table, (first, second, third) = three_versions(self, store)
        lease = pin(table, second)
        assert expire(table, [second, third], NOW + 2 * HOUR).versions[-1:] == (first,)
        assert list(store.leases(NAMES.name)) == [lease]
        assert second not in expire(table, [third]).versions
        assert table.rows_at(second) == bag((1, "a"), (2, "b"))

    def test_what_is_gone_or_never_was_cannot_be_pinned(self, store: KeptStore) -> None:
        table, (first, _, third) = three_versions(self, store)
        expire(table, [third])
        with pytest.raises(VersionExpired):
            pin(table, first)
        with pytest.raises(VersionNotFound):
            pin(table, Version("999999"))
        assert list(store.leases(NAMES.name)) == []

    @both_layouts
    def test_a_leased_version_outlives_all_that_comes(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        table.commit(append=[(1, "a"), (2, "b")])
        held = table.commit(merge=[(1, "held")])
        then = bag((1, "held"), (2, "b"))
        lease, frame = pin(table, held), table.frame()
        for round_ in range(3):
            table.commit(merge=[(1, f"merged {round_}")], append=[(10 + round_, "more")])
            table.commit(delete=[(2,)])
            table.compact()
            overwritten = table.commit(overwrite=[(1, "overwritten"), (2, "b")])
            expire(table, [overwritten])
            assert table.rows_at(held) == then
        assert bag(*self.rows(frame)) == then
        assert table.rows() == bag((1, "overwritten"), (2, "b"))
        store.unpin(NAMES.name, lease.id)
        expire(table, [overwritten])
        with pytest.raises(VersionExpired):
            table.rows_at(held)
