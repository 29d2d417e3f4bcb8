"""The same work on each engine over Delta tables: a backlog of files, worked off from cold, every row checked.

python -m benchmarks.engines [--engines local spark] [--work retraction cumulate wide ranking] [--rows N] [--epochs N]
[--flink FOLDER [--flink-heap 2g]]

Each side is one `headwater run --until-idle` in its own process, over the same files, one file an epoch. Its time
begins with the start of the process. The sides run one after the other. With `--flink`, the last side is a job of
Flink SQL into Paimon over the same records, until its result is committed; its memory is that of its whole process,
which also reads the result for the check.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from attrs import asdict, field, frozen

from headwater import Headwater

from . import cumulate_headwater, data, items, orders, page_views, retraction_headwater, wide_headwater
from .deployment import RANKING, fresh
from .sides import Ran, run_until_idle, totals_of
from .tables import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .memory import Used

_FOLDER = Path("var/bench/engines")
_HEAD = ("work", "engine", "rows", "epochs", "wall s", "cpu s", "peak MiB", "rows/s", "wrong")
_LATE = 0.05
_FLINK = "flink"


@frozen
class FlinkWork:
    """A program on Flink for the same work.

    Args:
        program: its file and its arguments.
        inputs: which subfolder of the input it reads under which name, if under another one.
        right: the expected rows, from the input; None if they are those of the work.
    """

    program: tuple[str, ...]
    inputs: Mapping[str, str] = field(factory=dict)
    right: Callable[[Path], pl.DataFrame] | None = None


@frozen
class Work:
    """A pipeline to run.

    Args:
        toml: its sources and pipeline.
        view: the view to check.
        write: writes the input files of a number of rows and epochs into a folder's subfolders, which become the
            sources' folders; returns the expected rows.
        found: the rows of the view, in the columns of the expected ones.
        flink: the same on Flink.
    """

    toml: str
    view: str
    write: Callable[[Path, int, int], pl.DataFrame]
    found: Callable[[pl.DataFrame], pl.DataFrame]
    flink: FlinkWork


@frozen
class Result:
    """The figures of one side."""

    work: str
    engine: str
    rows: int
    epochs: int
    wall: float
    used: Used
    wrong: int

    @property
    def cells(self) -> list[str]:
        """The cells of a line of the table."""
        figures = (f"{self.wall:.1f}", f"{self.used.cpu:.1f}", f"{self.used.peak:.0f}", f"{self.rows / self.wall:,.0f}")
        return [self.work, self.engine, f"{self.rows:,}", str(self.epochs), *figures, str(self.wrong)]


def _write_changelog(folder: Path, rows: int, epochs: int) -> pl.DataFrame:
    shop = orders.write(folder, epochs, rows // epochs)
    (folder / "messages").rename(folder / "in")
    (folder / "messages").mkdir()
    with (folder / "messages" / "all.json").open("wb") as whole:
        for file in sorted((folder / "in").iterdir()):
            whole.write(file.read_bytes())
    totals = [(state, count, shop.cents[state]) for state, count in shop.totals.items() if count]
    return pl.DataFrame(totals, schema=["state", "orders", "cents"], orient="row")


def _states(rows: pl.DataFrame) -> pl.DataFrame:
    totals = totals_of(rows.select("state", "orders", "amount").rows())
    return pl.DataFrame([(state, *each) for state, each in totals.items()], ["state", "orders", "cents"], orient="row")


def _write_views(folder: Path, rows: int, epochs: int) -> pl.DataFrame:
    page_views.write(folder, rows, epochs, 0.2)
    (folder / "rows").rename(folder / "in")
    return pl.read_parquet(folder / page_views.RIGHT)


def _ticks(rows: pl.DataFrame) -> pl.DataFrame:
    day = rows.filter(pl.col("window_start") == page_views.START)
    minute = (pl.col("tick") - pl.col("window_start")).dt.total_minutes().alias("minute")
    return day.select(minute, "page", "pv", "uv")


def _write_items(folder: Path, rows: int, epochs: int) -> pl.DataFrame:
    items.write(folder, rows * 50 // 102, -(-rows // epochs))
    (folder / "in").mkdir()
    for topic in items.TOPICS:
        (folder / topic).rename(folder / "in" / topic)
    return pl.read_parquet(folder / items.RIGHT)


def _write_orders(folder: Path, rows: int, epochs: int) -> pl.DataFrame:
    size = rows // epochs
    (folder / "in").mkdir()
    for number in range(epochs):
        data.write_epoch(number, number * size, folder / "in" / f"{number:04d}.parquet", late_share=_LATE, rows=size)
    rank = pl.col("event_time").rank("dense").over("group_id").cast(pl.Int64).alias("rank")
    return pl.read_parquet(folder / "in" / "*.parquet").select("order_id", rank)


def _row_numbers(folder: Path) -> pl.DataFrame:
    number = pl.struct("event_time", "order_id").rank("ordinal").over("group_id").cast(pl.Int64).alias("rank")
    return pl.read_parquet(folder / "in" / "*.parquet").select("order_id", number)


WORK = {
    "retraction": Work(
        retraction_headwater.COUNTING,
        "order_states.totals",
        _write_changelog,
        _states,
        FlinkWork(("retraction_flink.py", "heap")),
    ),
    "cumulate": Work(
        cumulate_headwater.WORK, cumulate_headwater.TICKS, _write_views, _ticks, FlinkWork(("cumulate_flink.py",))
    ),
    "wide": Work(
        wide_headwater.work(),
        f"{wide_headwater.PIPELINE}.rows",
        _write_items,
        lambda rows: rows,
        FlinkWork(("wide_paimon.py", "stream"), {topic: f"in/{topic}" for topic in items.TOPICS}),
    ),
    "ranking": Work(
        RANKING,
        "order_rank.ranks",
        _write_orders,
        lambda rows: rows.select("order_id", "rank"),
        FlinkWork(("ranking_flink.py",), right=_row_numbers),
    ),
}


def _run(name: str, engine: str, right: pl.DataFrame, epochs: int, rows: int) -> Result:
    """Run one side, and check its rows."""
    work, folder = WORK[name], _FOLDER / name
    home = folder / engine
    config = fresh(home, f"delta:{engine}", upkeep="", work=work.toml)
    wall, used = run_until_idle(config, folder / "in", folder / f"{engine}.log")
    with Headwater.from_config(config) as headwater:
        shown = headwater.view(work.view)
        found = work.found(shown if isinstance(shown, pl.DataFrame) else pl.from_arrow(shown.toArrow()))
    return Result(name, engine, rows, epochs, wall, used, wrong_rows(found.select(right.columns), right))


def _run_flink(name: str, flink: Path, right: pl.DataFrame, epochs: int, rows: int) -> Result:
    """Run the side on Flink, and check its rows."""
    work, folder = WORK[name].flink, (_FOLDER / name).resolve()
    for expected, there in work.inputs.items():
        (folder / expected).symlink_to(folder / there)
    ran = Ran.on_flink(flink, *work.program, folder=folder)
    if totals := ran.figures.totals:
        found = pl.DataFrame([(state, *each) for state, each in totals.items()], right.columns, orient="row")
    else:
        found = pl.read_parquet(folder / _FLINK / "rows")
    expected = work.right(folder) if work.right else right
    found = found.select(pl.col(name).cast(kind) for name, kind in expected.schema.items())
    return Result(name, _FLINK, rows, epochs, ran.whole, ran.used, wrong_rows(found, expected))


def wrong_rows(found: pl.DataFrame, right: pl.DataFrame) -> int:
    """The number of rows that are wrong, missing or extra."""
    same = right.join(found.unique(), on=right.columns, how="semi", nulls_equal=True).height
    return found.height + right.height - 2 * same


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=["local", "spark"])
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and its jars in jars")
    parser.add_argument("--flink-heap", default="2g")
    return parser.parse_args()


def main() -> int:
    """Measure, print the table and write it as JSON; return 0 if every row is right."""
    options, results = _options(), []
    for name in options.work:
        folder = _FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        right = WORK[name].write(folder, options.rows, options.epochs)
        for engine in options.engines:
            results.append(_run(name, engine, right, options.epochs, options.rows))
            print(" ".join(results[-1].cells), file=sys.stderr, flush=True)
        if options.flink:
            os.environ["FLINK_HEAP"] = options.flink_heap
            results.append(_run_flink(name, options.flink, right, options.epochs, options.rows))
            print(" ".join(results[-1].cells), file=sys.stderr, flush=True)
    print_table([[*_HEAD], *(result.cells for result in results)])
    file = _FOLDER / "engines.json"
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + os.linesep)
    print(f"written to {file}")
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
