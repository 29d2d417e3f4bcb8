"""Views read from base files only: what backends with a log show, and which backends refuse."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater import Headwater
from headwater.domain.errors import ConfigError, NotSupported
from headwater.testing.trial import Trial
from tests.spark_fixtures import store_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.app.run.runner import Runner
    from headwater.testing.tables import Table

pytestmark = pytest.mark.contract

DEPLOYMENT = Path(__file__).parents[2] / "features" / "bootstrap.toml"
HISTORY: Table = [["shop_id", "items", "seq"], ["1", "9", "3"], ["3", "5", "2"]]
LATER: Table = [["shop_id", "items", "seq"], ["1", "1", "4"], ["2", "2", "1"]]


def _compact_all(runner: Runner) -> None:
    from headwater.adapters.hudi.compact import CompactionPolicy

    store_below(runner).compaction = CompactionPolicy(min_files=1)


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def loaded(folder: Path, backend: str, exits: ExitStack) -> Trial:
    """A shop whose history is loaded, and an epoch upon it."""
    trial = Trial(folder, backend, exits, *([] if backend == "memory" else [_compact_all]))
    trial.deploy(DEPLOYMENT.read_text(encoding="utf-8"))
    trial.remember("stock", HISTORY)
    trial.load("shop")
    trial.feed_table("stock", LATER)
    trial.run()
    return trial


def shown(trial: Trial, **how: Any) -> Counter[tuple[int, int]]:
    frame = trial.open().answer("shop.rows", **how).frame
    return Counter(frame.select("shop_id", "item_count").collect(backend="polars").rows())


@pytest.mark.hudi
@pytest.mark.usefixtures("spark")
class TestHudi:
    def test_a_published_table_is_read_in_the_columns_of_its_newest_version(
        self, tmp_path: Path, exits: ExitStack
    ) -> None:
        trial = Trial(tmp_path, "hudi-mor", exits)
        trial.deploy((DEPLOYMENT.parent / "tags.toml").read_text(encoding="utf-8"))
        (tmp_path / "tags.csv").write_text("project,tag\n1,red\n")
        trial.run()
        trial.set("pipelines.tagged.tables.projects", '"SELECT project, length(tag) AS letters FROM tags"')
        trial.run()
        answer = trial.open().answer("tagged.projects", read_optimized=True)
        assert answer.view.schema.names == ("project", "letters")
        assert answer.frame.collect(backend="polars").rows() == [("1", 3)]

    def test_a_table_merged_on_read_shows_its_last_compaction(self, tmp_path: Path, exits: ExitStack) -> None:
        trial = loaded(tmp_path, "hudi-mor", exits)
        newest = Counter([(1, 1), (2, 2), (3, 5)])
        assert shown(trial) == newest
        assert shown(trial, read_optimized=True) == Counter([(1, 9), (3, 5)])
        trial.compact("shop")
        assert shown(trial, read_optimized=True) == shown(trial) == newest

    def test_programs_that_name_no_engine_get_frames_of_spark(self, tmp_path: Path, exits: ExitStack) -> None:
        deployment = loaded(tmp_path, "hudi-mor", exits).deployment()
        with Headwater(evolve(deployment, backend=evolve(deployment.backend, engine=None))) as headwater:
            frame = headwater.view("shop.rows", read_optimized=True)
            assert type(frame).__module__.startswith("pyspark.")
            assert sorted(row["shop_id"] for row in frame.collect()) == [1, 3]

    def test_a_table_that_is_copied_has_no_log(self, tmp_path: Path, exits: ExitStack) -> None:
        trial = loaded(tmp_path, "hudi-cow", exits)
        assert shown(trial, read_optimized=True) == shown(trial) == Counter([(1, 1), (2, 2), (3, 5)])


class TestOthers:
    def test_memory_has_no_base_files(self, tmp_path: Path, exits: ExitStack) -> None:
        trial = loaded(tmp_path, "memory", exits)
        with pytest.raises(NotSupported, match="memory does not support read-optimized views: read the view itself"):
            shown(trial, read_optimized=True)

    @pytest.mark.parametrize("asked", [{"at": 0}, {"since": 0}])
    def test_base_files_are_of_no_one_moment(self, tmp_path: Path, exits: ExitStack, asked: dict[str, int]) -> None:
        trial = loaded(tmp_path, "memory", exits)
        with pytest.raises(ConfigError, match="no single version"):
            shown(trial, read_optimized=True, **asked)
