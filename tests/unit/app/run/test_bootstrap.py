"""Loading a history: its offsets, its refusals, and its options at the command line."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import click
import polars as pl
import pytest

from headwater.adapters.files.listing import FilesSettings, Listing
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.adapters.kafka.plan import OffsetBounds, beginning, end, plan
from headwater.adapters.memory.store import MemoryStore
from headwater.app.cli.bootstrap import _topic_table
from headwater.app.cli.main import main
from headwater.app.run.bootstrap import HistoryTable, stream_offsets
from headwater.domain.epoch.epoch import Epoch
from headwater.domain.errors import ConfigError, NotSupported, SourceChanged, StoreUnavailable
from headwater.domain.service.history_load import HistoryLoad, HistorySource, takes_over
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from headwater.testing.frames import polars_frame
from headwater.testing.trial import Trial
from tests.rows_source import ExpiringRows, RowsSource

DEPLOYMENT = Path(__file__).parents[4] / "features" / "bootstrap.toml"
BEFORE = '{"":"f6ae0ab2","info":"73e95c29","info.name":"e468b634","stock":"ecbc864d","stock.item_count":"10020575"}'
"""The fingerprint of `DEPLOYMENT` in versions that did not record how the sources are read."""
STOCK = [["shop_id", "items", "seq"], ["1", "9", "3"], ["3", "5", "2"]]


@pytest.fixture
def trial(tmp_path):
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(DEPLOYMENT.read_text(encoding="utf-8"))
        yield trial


@pytest.fixture
def rows():
    source = RowsSource(Schema.parse("id bigint"), polars_frame, limit=2)
    source.give([{"id": each} for each in range(5)])
    return source


class TestOffsets:
    def test_chunks_carry_where_the_stream_takes_over(self, rows):
        history = HistorySource(rows, {"info": "/dump:csv"}, {"info": {"at": 7}})
        first = history.plan(None, NOW)
        assert takes_over(first.until) == {"info": {"at": 7}}
        later = HistorySource(rows, {"info": "/dump:csv"}, {"info": {"at": 99}}).plan(first.until, NOW)
        assert takes_over(later.until) == {"info": {"at": 7}}  # as it was written down first
        assert later.until["history"] == {"rows": 4}
        with history.open(Epoch("p", 1), later) as batch:
            assert batch.rows.collect(backend="polars")["id"].to_list() == [2, 3]
        assert history.plan(HistorySource(rows, {"info": "/dump:csv"}, {}).plan(later.until, NOW).until, NOW) is None

    def test_other_tables_are_another_load(self, rows):
        begun = HistorySource(rows, {"info": "/dump:csv"}, {}).plan(None, NOW)
        with pytest.raises(ConfigError, match="resume it with info=/dump:csv"):
            HistorySource(rows, {"info": "/dump2:csv"}, {}).plan(begun.until, NOW)

    @pytest.mark.parametrize("wanted", ['{"info": {"rows": 1}}', {"info": {"rows": 1}}])
    def test_the_stream_starts_where_it_is_told(self, rows, wanted):
        assert stream_offsets(wanted, {"info": rows}, NOW) == {"info": {"rows": 1}}

    def test_a_place_that_cannot_be_read_is_refused_before_the_load(self, rows):
        source = ExpiringRows(rows.schema, rows.frame, given=rows.given, first=3)
        with pytest.raises(SourceChanged, match="were removed"):
            stream_offsets({"info": {"rows": 1}}, {"info": source}, NOW)

    def test_a_file_tells_where_the_stream_starts(self, rows, tmp_path):
        (tmp_path / "at.json").write_text(json.dumps({"info": {"rows": 2}}))
        topics = {"info": rows}
        assert stream_offsets(str(tmp_path / "at.json"), topics, NOW) == {"info": {"rows": 2}}
        assert stream_offsets("beginning", topics, NOW) == {}
        assert stream_offsets("now", topics, NOW) == {"info": {"rows": 5}}

    def test_the_beginning_is_recorded_if_a_source_may_lose_it(self, rows):
        expiring = ExpiringRows(rows.schema, rows.frame, given=rows.given, first=3)
        topics = {"info": rows, "stock": expiring}
        assert stream_offsets("beginning", topics, NOW) == {"stock": {"rows": 3}}
        assert stream_offsets({"info": {"rows": 1}}, topics, NOW) == {"info": {"rows": 1}, "stock": {"rows": 3}}

    @pytest.mark.parametrize("own", [None, 5, [], {}, "0"])
    def test_offsets_of_a_topic_that_say_nothing_are_refused(self, rows, own):
        with pytest.raises(ConfigError, match="are not offsets; leave the topic out") as refused:
            stream_offsets({"info": own}, {"info": rows}, NOW)
        assert refused.value.__notes__ == ["where the stream of topic 'info' takes over"]

    @pytest.mark.parametrize(
        "own",
        [{"first": "a"}, {"first": "a", "count": 1}, {"first": "a", "count": 1, "newest": {}}, {"a.json": {"0": 1}}],
    )
    def test_offsets_that_are_not_of_files_are_refused(self, tmp_path, own):
        files = PolarsFileSource(FilesSettings(str(tmp_path)), RecordSpec(Schema.parse("id bigint")))
        with pytest.raises(ConfigError, match="are not offsets of files; take those of a publication"):
            stream_offsets({"info": own}, {"info": files}, NOW)

    def test_offsets_of_files_are_those_of_a_publication(self, tmp_path):
        (tmp_path / "a.json").write_text('{"id": 1}\n')
        files = PolarsFileSource(FilesSettings(str(tmp_path)), RecordSpec(Schema.parse("id bigint")))
        planned = files.plan(None, NOW)
        assert stream_offsets({"info": planned.until}, {"info": files}, NOW) == {"info": planned.until}

    @pytest.mark.parametrize("wanted", ["yesterday", "{", "[1]", '{"stock": {}}'])
    def test_what_tells_nothing_is_refused(self, rows, wanted):
        with pytest.raises(ConfigError, match=r"takes over"):
            stream_offsets(wanted, {"info": rows}, NOW)

    def test_a_text_that_tells_nothing_names_the_option(self, rows):
        with pytest.raises(ConfigError, match=r"stream_from \(--stream-from\): 'yesterday' is not a place where"):
            stream_offsets("yesterday", {"info": rows}, NOW)

    @pytest.mark.parametrize("wanted", ["beginning", "now", {}])
    def test_an_error_of_a_stream_names_its_topic(self, rows, wanted):
        class Missing(RowsSource):
            def beginning(self):
                raise ConfigError("there is no such topic")

            end = beginning

        with pytest.raises(ConfigError, match="no such topic") as refused:
            stream_offsets(wanted, {"info": rows, "stock": Missing(rows.schema, rows.frame)}, NOW)
        assert refused.value.__notes__ == ["topic 'stock' of the pipeline"]


class TestEnds:
    """Behind the end of a source there is nothing until something comes."""

    def test_of_files(self, tmp_path):
        listing = Listing(FilesSettings(str(tmp_path), 5), "json")
        assert listing.end() is None
        for number in range(40):
            (tmp_path / f"{number:03d}.json").write_text("{}\n" * number)
        end_ = listing.end()
        assert listing.plan(end_) is None
        assert listing.waiting(end_) == 0
        (tmp_path / "100.json").write_text("{}")
        assert [path.name for path in listing.files(listing.plan(end_))] == ["100.json"]

    def test_of_kafka(self):
        held = {("t", 0): OffsetBounds(3, 9), ("t", 1): OffsetBounds(0, 0)}
        assert end(held) == {"t": {"0": 9, "1": 0}}
        assert plan(end(held), held, 10) is None


def test_the_beginning_of_kafka():
    held = {("t", 0): OffsetBounds(3, 9, "id"), ("t", 1): OffsetBounds(0, 0, "id")}
    assert beginning(held) == {"t": {"0": 3, "1": 0, "id": "id"}}
    assert plan(beginning(held), held, None) == plan(None, held, None)


class TestTables:
    @pytest.mark.parametrize(
        ("text", "path", "format_"),
        [
            ("/dump/info", "/dump/info", "parquet"),
            ("/dump/info:csv", "/dump/info", "csv"),
            ("s3a://bucket/info", "s3a://bucket/info", "parquet"),
            ("s3a://bucket/info:delta", "s3a://bucket/info", "delta"),
        ],
    )
    def test_a_path_and_its_format(self, text, path, format_):
        assert HistoryTable.parse(text) == HistoryTable(path, format_)

    def test_relative_paths_start_from_the_working_directory(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert HistoryTable.parse("dump:json") == HistoryTable(str(tmp_path / "dump"), "json")

    @pytest.mark.parametrize("text", ["info", "=x", "info=", "info=/dump:xml"])
    def test_what_names_no_table_is_refused(self, text):
        with pytest.raises(click.BadParameter):
            _topic_table(text)


class TestRefusals:
    def test_of_topics_and_pipelines_that_are_not_there(self, trial):
        with pytest.raises(ConfigError, match="no topic 'score'; it has: info, stock"):
            trial.open().bootstrap("shop", {"score": "/dump"})
        with pytest.raises(ConfigError, match="no pipeline 'shops'"):
            trial.open().bootstrap("shops", {"info": "/dump"})

    def test_of_folders_that_are_not_there_or_empty(self, trial):
        with pytest.raises(ConfigError, match="nowhere is not a directory; create it, or correct the path") as refused:
            trial.open().bootstrap("shop", {"info": str(trial.folder / "nowhere")})
        assert refused.value.__notes__ == ["the history of topic 'info'"]
        with pytest.raises(ConfigError, match="no history of pipeline 'shop' is named"):
            trial.open().bootstrap("shop", {})

    def test_of_chunks_without_files(self, trial):
        trial.remember("stock", STOCK)
        with pytest.raises(
            ConfigError, match=r"^no file to read in a chunk: files_per_chunk \(--files-per-chunk\) must"
        ):
            trial.open().bootstrap("shop", {"stock": f"{trial.folder}/history/stock:json"}, files_per_chunk=0)

    def test_of_a_topic_without_files_though_another_has_some(self, trial):
        trial.remember("stock", STOCK)
        empty = trial.folder / "empty"
        empty.mkdir()
        tables = {"stock": f"{trial.folder}/history/stock:json", "info": str(empty)}
        with pytest.raises(ConfigError, match=rf"topic 'info' has no files: {empty} has none of format parquet; .*\)$"):
            trial.open().bootstrap("shop", tables)
        (empty / "day=1").mkdir()
        with pytest.raises(ConfigError, match=r"sub-folders are not read \(day=1\): put all files into one folder"):
            trial.open().bootstrap("shop", tables)
        assert not list(trial.open().start(["shop"])[0].store.versions("shop.wide_loading"))  # no chunk was read

    def test_of_formats_that_an_engine_does_not_read(self, trial):
        with pytest.raises(NotSupported):
            trial.open().bootstrap("shop", {"info": f"{trial.folder}:delta"})


class TestLoads:
    def test_parquet_and_csv_are_read_by_the_schema_of_the_source(self, trial):
        for name in ("info", "stock"):
            (trial.folder / name).mkdir()
        (trial.folder / "info" / "a.csv").write_text("shop_id,name,updated_at\n1,North,2024-03-01 09:00\n2,South,\n")
        stock = pl.DataFrame({"shop_id": [1], "items": [4], "seq": [1]}, schema_overrides={"items": pl.Int32})
        stock.write_parquet(trial.folder / "stock" / "a.parquet")
        headwater = trial.open()
        published = headwater.bootstrap(
            "shop", {"info": f"{trial.folder / 'info'}:csv", "stock": str(trial.folder / "stock")}
        )
        assert (published.epoch.number, published.offsets) == (0, {})
        assert headwater.view("shop.rows").rows() == [(1, "North", 4)]
        letters = headwater.view("shop.dead_letters")
        assert letters.select("format", "origin").rows() == [("history csv", "info: a.csv")]
        replayed = headwater.replay("shop")  # the topic's source has other files
        assert (replayed.read, replayed.left, replayed.unreadable) == (0, 1, 1)
        assert headwater.view("shop.dead_letters").equals(letters)

    def test_it_is_told_chunk_by_chunk(self, trial):
        trial.remember("stock", STOCK)
        trial.remember("stock", STOCK)
        told = []
        headwater = trial.open()
        headwater.start(["shop"])[0].report = told.append
        headwater._report = told.append
        headwater.bootstrap("shop", {"stock": f"{trial.folder}/history/stock:json"}, files_per_chunk=1)
        assert [(each.rows, each.task) for each in told] == [
            (2, "history: info: nothing, stock: 1 file"),
            (2, "history: info: nothing, stock: 0 files"),
            (0, "history loaded"),
        ]
        assert told[-1].written == 2

    def test_its_dead_letters_are_told_with_their_reasons(self, trial, caplog):
        trial.remember("stock", [*STOCK, ["3", "many", "3"]])
        trial.remember("stock", [*STOCK, ["4", "some", "4"]])
        trial.load("shop")
        reason = "column 'items': int wanted, not "
        limit = "more than dead_letter_limit = 10%: 1 x " + reason
        assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
            f"shop epoch 0: 1 of 3 rows (33 %) became dead letters, {limit}'many'",
            f"shop epoch 1: 1 of 3 rows (33 %) became dead letters, {limit}'some'",
            f"shop: in this run 2 of 6 rows (33 %) became dead letters: 1 x {reason}'many'; 1 x {reason}'some';"
            " `headwater dead-letters` lists them",
        ]

    def test_what_was_gathered_is_put_away(self, trial):
        trial.remember("stock", STOCK)
        trial.load("shop")
        store = trial.open().start(["shop"])[0].store
        (newest, *_) = store.versions("shop.wide_loading")
        assert store.read("shop.wide_loading", newest.version).collect().is_empty()

    def test_a_compaction_that_fails_costs_no_load(self, trial, monkeypatch, caplog):
        def compact(_store, table):
            raise StoreUnavailable(f"{table} cannot be compacted now")

        monkeypatch.setattr(MemoryStore, "compact", compact)
        trial.remember("stock", STOCK)
        trial.load("shop")
        assert "shop: compact failed, and will be tried again: shop.dead_letters cannot be compacted" in caplog.text
        store = trial.open().start(["shop"])[0].store
        (newest, *_) = store.versions("shop.wide_loading")
        assert store.read("shop.wide_loading", newest.version).collect().is_empty()

    def test_the_watermark_is_that_of_the_history(self, trial):
        trial.remember("info", [["shop_id", "name", "updated_at"], ["1", "North", "2024-03-01 09:00"]])
        trial.load("shop")
        (published,) = trial.publications("shop")
        assert f"{published.watermark:%Y-%m-%d %H:%M}" == "2024-03-01 09:00"


class TestResumed:
    """A load is resumed if its tables have the rows that it would read now."""

    @staticmethod
    def changed(trial, fingerprint):
        service = trial.open().start(["shop"])[0].service
        return service.changed(fingerprint), HistoryLoad(service).changed(fingerprint)

    def test_if_an_earlier_version_began_it(self, trial):
        assert self.changed(trial, BEFORE) == (None, None)

    def test_unless_a_column_is_new(self, trial):
        """Tables are continued with a new column, but the chunks that were read lack it."""
        fewer = {name: each for name, each in json.loads(BEFORE).items() if name != "stock.item_count"}
        changed = "settings (what they were is not on record)"
        assert self.changed(trial, json.dumps(fewer)) == (None, changed)

    def test_unless_a_column_is_another(self, trial):
        changed = "expression or type of column item_count"
        assert self.changed(trial, BEFORE.replace("10020575", "10020576")) == (changed, changed)


class TestCommand:
    @pytest.mark.usefixtures("parquet_backend")
    def test_a_history_is_loaded(self, tmp_path, capsys):
        deploy = tmp_path / "deploy.toml"
        text = DEPLOYMENT.read_text(encoding="utf-8").replace('name = "memory"', 'name = "parquet"\npath = "lake"')
        for source in ("info", "stock"):
            (tmp_path / source).mkdir()
            text = text.replace(
                f'kind = "kafka"\nservers = "127.0.0.1:9092"\ntopics = ["shop.{source}"]',
                f'kind = "files"\npath = "{tmp_path / source}"',
            )
        deploy.write_text(text)
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "1.json").write_text('{"shop_id": 1, "items": 2, "seq": 1}\n')
        assert main(["bootstrap", str(deploy), "shop", "--from", f"stock={tmp_path / 'old'}:json"]) == 0
        told = capsys.readouterr().err
        assert "shop epoch 0: 1 rows in, 1 written, watermark -, history: info: nothing, stock: 0 files" in told
        assert "shop epoch 0: 1 written, watermark -, history loaded, " in told
        assert "shop: the history is loaded as epoch 0" in told

    def test_a_topic_has_one_table(self, tmp_path, capsys):
        deploy = tmp_path / "deploy.toml"
        deploy.write_text(DEPLOYMENT.read_text(encoding="utf-8"))
        assert main(["bootstrap", str(deploy), "shop", "--from", "stock=/a", "stock=/b"]) == 2
        assert "names a topic twice" in capsys.readouterr().err
