"""The local engine's Delta tables in an object store: under the contract, and where the store fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from attrs import evolve

from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.delta.local import data_files
from headwater.adapters.delta.local.log import LocalLog
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.adapters.polars.file_cache import FileCache
from headwater.adapters.polars.file_errors import explain_read_errors
from headwater.adapters.shared.path import folder_of
from headwater.domain.errors import (
    ConfigError,
    EpochConflict,
    NotSupported,
    StoreUnavailable,
    VersionExpired,
)
from headwater.domain.table.merge import Sum
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, TableDriver, bag, spec_of
from tests.object_store import AzureStore, ObjectStore, azure_store, google_store, object_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

pytestmark = pytest.mark.contract
bucket = pytest.importorskip("headwater.adapters.delta.local.bucket", reason="needs obstore, of headwater[s3]")

SUMS = spec_of("id bigint, n bigint", ["id"], rules={"n": Sum()})


class Delta(PolarsFrames, StoreHarness):
    """The local engine's tables at an address."""

    root: str
    folder = "tables of a [lake] {with} 100%20, ü"

    def reopen(self) -> LocalDeltaStore:
        return LocalDeltaStore(self.root)

    def reopened(self, table: TableDriver) -> TableDriver:
        """The same table as another process has it."""
        again = self.table(self.reopen(), table.spec)
        again.sequence, again.newest = table.sequence, table.newest
        return again

    def log_of(self, table: TableDriver) -> LocalLog:
        """A log that has read all commits."""
        log = LocalLog(folder_of(self.root, table.spec.name), self.reopen().storage)
        log.newest()
        return log


class BucketDelta(Delta):
    kind = staticmethod(object_store)

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls) -> Iterator[ObjectStore]:
        with cls.kind() as store:
            yield store

    @pytest.fixture(autouse=True)
    def _root(self, running: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects = running
        self.root = f"{running.new_bucket()}/{self.folder}"
        monkeypatch.setattr(running, "answer", running.answer)
        monkeypatch.setattr(bucket, "_RETRIED", timedelta(seconds=0.1))

    def answer(self, does: Callable[[dict[str, Any]], str | None], body: bytes = b"") -> None:
        """Let the object store answer with a status and a body if it gets a status, and else as always."""
        answer = self.objects.answer

        def instead(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if (status := does(environ)) is None:
                return answer(environ, start)
            start(status, [])
            return [body]

        self.objects.answer = instead


class TestBucketDeltaStore(BucketDelta, StoreContract):
    pass


class GoogleDelta(BucketDelta):
    kind = staticmethod(google_store)


@pytest.mark.further
class TestGoogleDeltaStore(GoogleDelta, StoreContract):
    pass


class AzureDelta(Delta):
    @pytest.fixture(scope="class")
    @classmethod
    def running(cls) -> Iterator[AzureStore]:
        with azure_store() as store:
            yield store

    @pytest.fixture(autouse=True)
    def _root(self, running: AzureStore) -> None:
        self.root = f"{running.new_bucket()}/{self.folder}"


@pytest.mark.further
class TestAzureDeltaStore(AzureDelta, StoreContract):
    pass


class TestLog(BucketDelta):
    folder = "tables"

    def test_both_names_of_an_address_mean_one_table(self) -> None:
        version = self.table(self.reopen(), SUMS).commit(merge=[(1, 1)])
        hadoop = self.table(LocalDeltaStore(self.root.replace("s3://", "s3a://")), SUMS)
        assert hadoop.rows_at(version) == bag((1, 1))

    def test_few_requests_are_made(self) -> None:
        """Each costs money, and tens of milliseconds."""
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(1, 1)])
        assert self.methods_of(lambda: table.commit(merge=[(2, 1)])) == ["PUT", "HEAD", "PUT"]
        assert self.methods_of(lambda: table.rows_at(table.newest)) == []
        again = self.reopened(table)
        table.commit(merge=[(3, 1)])
        assert self.methods_of(lambda: list(again.store.versions(SUMS.name))) == ["GET", "GET", "HEAD"]
        assert len(self.methods_of(lambda: self.table(self.reopen(), evolve(SUMS, name="pipeline.none")))) == 1

    def methods_of(self, use: Callable[[], object]) -> list[str]:
        """The methods of the requests that a use makes."""
        self.objects.asked.clear()
        use()
        return [method for method, _ in self.objects.asked]

    def test_names_are_listed_from_one_on(self) -> None:
        place, folder = LocalDeltaStore(f"{self.root} [a] {{b}} 100%20, ü").storage, f"{self.root} [a] {{b}} 100%20, ü"
        for name in ("1.json", "2.json", ".3.draft", "below/4.json", "_5"):
            assert place.create(f"{folder}/{name}", name)
        assert list(place.list_names(folder)) == ["1.json", "2.json", "_5"]
        assert list(place.list_names(folder, after="1")) == ["1.json", "2.json", "_5"]
        assert list(place.list_names(folder, after="2")) == ["2.json", "_5"]
        assert list(place.list_names(f"{folder}/none")) == []


class AtAnyStore(Delta):
    """What stores do in their own ways; all files are read in part. delta-rs, which writes checkpoints, takes the folder."""

    folder = "tables"

    @pytest.fixture(autouse=True)
    def _all_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)

    def reopen(self) -> LocalDeltaStore:
        return LocalDeltaStore(self.root, CompactionPolicy(min_files=2, min_share=0), cache=FileCache(limit=0))

    def test_they_are_looked_up_and_compacted(self) -> None:
        table = self.table(self.reopen(), SUMS)
        for first in (0, 500):
            table.commit(merge=[(number, 1) for number in range(first, first + 1000)])
        before = table.newest
        table.compact()
        assert table.newest != before
        again = self.reopened(table)
        assert again.rows(again.matching(id=(499, 500))) == bag((499, 1), (500, 2))
        assert sum(n for _, n in again.rows()) == 2000

    def test_one_that_is_gone_has_expired(self) -> None:
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(1, 1)])
        frame = table.frame().to_native()
        place = self.reopen().storage
        (file,) = (each for each in place.list_files(self.root, deep=True) if each.name.endswith(".parquet"))
        place.delete(file.path)
        with pytest.raises(VersionExpired, match="Read a newer version"), explain_read_errors():
            frame.collect()

    def test_of_several_writers_at_one_time_one_wins(self) -> None:
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(0, 1)])

        def write(number: int) -> TableDriver | None:
            writer = self.reopened(table)
            try:
                writer.commit(merge=[(number, 1)])
            except EpochConflict:
                return None
            return writer

        with ThreadPoolExecutor(8) as threads:
            won = [writer for writer in threads.map(write, range(1, 9)) if writer]
        assert len(won) == 1
        assert sum(n for _, n in self.reopened(won[0]).rows()) == 2

    def test_a_new_reader_begins_at_a_checkpoint(self) -> None:
        pytest.importorskip("deltalake", reason="writes checkpoints, and comes with headwater[delta]")
        table = self.table(self.reopen(), SUMS)
        for number in range(12):
            table.commit(merge=[(number, 1)])
            if number == 9:
                self.log_of(table).checkpoint()
        place = self.reopen().storage
        for each in place.list_files(f"{folder_of(self.root, SUMS.name)}/_delta_log", deep=False):
            if each.name < f"{9:020}.":
                place.delete(each.path)
        assert self.reopened(table).rows() == bag(*((number, 1) for number in range(12)))


class TestAtAmazon(AtAnyStore, BucketDelta):
    pass


@pytest.mark.further
class TestAtGoogle(AtAnyStore, GoogleDelta):
    pass


@pytest.mark.further
class TestAtAzure(AtAnyStore, AzureDelta):
    pass


class TestFaults(BucketDelta):
    def test_a_commit_whose_answer_is_lost_is_made_once(self) -> None:
        """The request is repeated then, and refused, because the first one was carried out."""
        table, lost = self.table(self.reopen(), SUMS), list[str]()
        table.commit(merge=[(0, 1)])
        answer = self.objects.answer

        def lose(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            answered = answer(environ, start if lost or not _commits(environ) else Mock())
            if _commits(environ) and not lost:
                lost.extend(b"".join(answered).decode())
                lost.append("lost")
                start("500 Internal Server Error", [])
                return [b""]
            return answered

        self.objects.answer = lose
        table.commit(merge=[(1, 1)])
        assert lost
        assert self.reopened(table).rows() == bag((0, 1), (1, 1))

    def test_a_commit_that_cannot_be_made_leaves_the_table_as_it_was(self) -> None:
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(0, 1)])
        before = self.objects.answer
        self.answer(lambda environ: "503 Service Unavailable" if _commits(environ) else None)
        with pytest.raises(StoreUnavailable, match=r"cannot write s3://lake.*\.json: .*503.*AWS_ENDPOINT_URL"):
            table.commit(merge=[(1, 1)])
        self.objects.answer = before
        assert self.reopened(table).rows() == bag((0, 1))
        table.commit(merge=[(2, 1)])
        assert self.reopened(table).rows() == bag((0, 1), (2, 1))

    @pytest.mark.parametrize("status", ["503 Service Unavailable", "403 Forbidden"])
    def test_a_store_that_does_not_answer_is_told_without_secrets(self, status: str) -> None:
        table = self.table(self.reopen(), SUMS)
        version = table.commit(merge=[(0, 1)])
        again = self.reopened(table)
        self.answer(lambda _: status)
        for use in (lambda: again.rows_at(version), lambda: table.store.leases(SUMS.name), again.compact):
            with pytest.raises(StoreUnavailable, match=r"s3://lake.*; look at the address") as error:
                use()
            assert "secret" not in str(error.value)
            assert "\n" not in str(error.value)

    def test_rows_that_cannot_be_reached_are_not_damaged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(0, 1)])
        frame = table.frame().to_native()
        self.answer(lambda _: "403 Forbidden")
        with pytest.raises(StoreUnavailable, match="stored rows cannot be reached just now"), explain_read_errors():
            frame.collect()

    def test_what_the_store_answers_is_told_without_its_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)
        table = self.table(self.reopen(), SUMS)
        table.commit(merge=[(0, 1)])
        frame = table.frame().to_native()
        self.answer(
            lambda _: "403 Forbidden",
            b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SignatureDoesNotMatch</Code>\n<Message>It does not'
            b"\nmatch &quot;x&quot;.</Message><AWSAccessKeyId>AKIAHIDDEN</AWSAccessKeyId></Error>",
        )
        reason = '403 Forbidden: SignatureDoesNotMatch: It does not match "x".'
        for use in (lambda: self.reopened(table), lambda: table.commit(merge=[(1, 1)]), frame.collect):
            with pytest.raises(StoreUnavailable) as error, explain_read_errors():
                use()
            assert reason in str(error.value)
            assert "AKIA" not in str(error.value)
            assert "\n" not in str(error.value)

    def test_a_bucket_that_is_missing_is_told(self) -> None:
        gone = LocalDeltaStore("s3://no-such-bucket/tables")
        with pytest.raises(StoreUnavailable, match="404 Not Found: NoSuchBucket: The specified bucket does not exist;"):
            self.table(gone, SUMS)
        with pytest.raises(StoreUnavailable, match=r"cannot write s3://no-such-bucket/.*: NoSuchBucket: "):
            gone.storage.create("s3://no-such-bucket/a", "text")

    def test_a_store_that_is_away_for_many_tries_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bucket, "_RETRIED", timedelta(seconds=60))
        monkeypatch.setattr(bucket, "_LONGEST_WAIT", timedelta(milliseconds=110))
        away = 15
        tries = iter(range(away))
        self.answer(lambda _: "503 Service Unavailable" if next(tries, None) is not None else None)
        self.objects.asked.clear()
        assert not self.reopen().storage.has(f"{self.root}/none")
        assert len(self.objects.asked) == away + 1

    def test_an_address_of_the_store_that_cannot_be_used_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", self.objects.address.replace("//", "//me:hidden@"))
        with pytest.raises(ConfigError, match=r"AWS_ENDPOINT_URL .* must not contain a user or a password") as error:
            self.table(self.reopen(), SUMS)
        assert "hidden" not in str(error.value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", self.objects.address)
        monkeypatch.delenv("AWS_ALLOW_HTTP")
        with pytest.raises(ConfigError, match=r"AWS_ENDPOINT_URL .* set AWS_ALLOW_HTTP=true"):
            self.table(self.reopen(), SUMS)

    def test_a_store_that_overwrites_commits_is_refused(self) -> None:
        answer = self.objects.answer

        def overwrite(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            return answer(environ, start)

        self.objects.answer = overwrite
        self.objects.asked.clear()
        table = self.table(self.reopen(), SUMS)
        with pytest.raises(NotSupported, match="asked to refuse that"):
            table.commit(merge=[(0, 1)])
        assert not [path for method, path in self.objects.asked if method == "PUT" and "_delta_log" in path]
        assert not self.reopen().storage.list_files(self.root, deep=False)

    @pytest.mark.parametrize("address", ["s3://", "s3:///lake", "s3://lake/a//b", "s3a://lake/../b"])
    def test_an_address_that_names_no_objects_is_refused(self, address: str) -> None:
        with pytest.raises(ConfigError, match=r"backend\.path: s3:.*: write s3://bucket/folder"):
            LocalDeltaStore(address)


def _commits(environ: dict[str, Any]) -> bool:
    return environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(".json")
