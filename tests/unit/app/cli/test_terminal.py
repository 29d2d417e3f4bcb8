"""Tables and messages on a terminal: colours, wide characters, and tables wider than it is."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from headwater.app.cli.bars import Bars
from headwater.app.cli.console import print_message
from headwater.app.cli.main import main
from headwater.app.cli.output import write
from headwater.app.cli.terminal import print_styled
from headwater.app.run.report import EpochReport
from headwater.domain.epoch.epoch import Epoch
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.parse("id int, name string, n int")
WIPED = "\x1b[2K"
CONFIG = """
[backend]
name = "memory"
[sources.orders]
kind = "files"
path = "."
format = "json"
schema = "id bigint, at timestamp"
event_time = "at"
[pipelines.curve]
service = "cumulate"
source = "orders"
step = "1m"
measures = { n = "count(*)" }
"""
ROWS = [[1, "契約", 5], [2, "🎉", 10], [3, None, 7]]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "25")


@pytest.fixture
def dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without colours, so that its lines can be compared."""
    monkeypatch.setenv("TERM", "dumb")


def lines(content: list[list[object]], schema: Schema = SCHEMA) -> list[str]:
    out = Terminal()
    write(out, "table", schema, content)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.usefixtures("dumb")
def test_columns_are_aligned_by_the_cells_of_a_terminal() -> None:
    header, rule, *rows = lines(ROWS)
    assert header == "id  name   n"
    assert set(rule) == {"─"}
    assert rows == [" 1  契約   5", " 2  🎉    10", " 3  null   7"]
    assert {cell_len(row) for row in rows} == {12}


@pytest.mark.usefixtures("dumb")
def test_a_table_that_is_too_wide_has_a_list_for_each_row() -> None:
    long = "x" * 40
    assert lines([[1, long, 5], [2, "b", 6]]) == [
        "id    1",
        f"name  {long[:34]}",
        f"      {long[34:]}",
        "n     5",
        "",
        "id    2",
        "name  b",
        "n     6",
    ]


@pytest.mark.usefixtures("dumb")
def test_many_rows_are_one_table() -> None:
    """The first rows set the widths; longer texts in later rows are folded."""
    *most, last, folded = lines([*([number, "a", 1] for number in range(500)), [500, "abcdef", 1]])
    assert len(most) == 2 + 500
    assert most[0] == " id  name  n"
    assert last == "500  abcd  1"
    assert folded == "     ef"


@pytest.mark.usefixtures("dumb")
def test_texts_are_not_markup() -> None:
    assert lines([[1, "[bold]:tada:[/]", 5]])[-1] == " 1  [bold]:tada:[/]  5"


def styled() -> str:
    out = Terminal()
    print_styled(out, "headwater: nothing: [is] wrong", "red")
    return out.getvalue()


def test_a_message_begins_in_colour() -> None:
    assert styled() == "\x1b[31mheadwater\x1b[0m: nothing: [is] wrong\n"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled() == "headwater: nothing: [is] wrong\n"


def test_a_long_message_is_one_line() -> None:
    out = Terminal()
    print_styled(out, "ranked epoch 0: " + "long " * 20, "red")
    assert out.getvalue().count("\n") == 1


def test_messages_have_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    for err in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", err)
        print_message("headwater: it failed", "red")
        printed.append(err.getvalue())
    assert printed == ["\x1b[31mheadwater\x1b[0m: it failed\n", "headwater: it failed\n"]


def report(lag: str) -> EpochReport:
    return EpochReport(Epoch("shop", 3), 10, 0, 10, None, lag, {"read": 0.1})


def shown(lags: list[str], *, backlog: bool) -> list[str]:
    """The last line on the terminal after each epoch."""
    err = sys.stderr = Terminal()
    found = []
    with Bars(backlog=backlog) as bars:
        take = bars.below(lambda each: print_message(f"epoch with {each.lag} left"))
        for lag in lags:
            before = len(err.getvalue())
            take(report(lag))
            written = err.getvalue()[before:]
            assert f"epoch with {lag} left\n" in written
            last = re.sub(
                r"\x1b\[[\d;?]*[A-Za-z]|[\r━╸╺]", "", written.rpartition(WIPED)[2].strip().rpartition("\n")[2]
            )
            found.append(" ".join(last.split()))
    return found


@pytest.fixture
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setattr(sys, "stderr", sys.stderr)


@pytest.mark.usefixtures("_wide")
def test_bars_show_how_much_of_a_backlog_is_left() -> None:
    first, second, third, last = shown(["4 files", "3 files", "5 files", "0 files"], backlog=True)
    assert (first, second, third) == ("shop 0/4 -:--:--", "shop 1/4 -:--:--", "shop 1/6 -:--:--")
    assert last == ""


@pytest.mark.usefixtures("_wide")
def test_without_a_backlog_bars_show_only_bulk_loads() -> None:
    lags = ["7 records", "9 records, bulk: 2 files", "a: 1 record, b: 3 records, bulk: 1 file, 1 failed", "0 records"]
    assert shown(lags, backlog=False) == [
        "epoch with 7 records left",
        "shop: bulk 0/2 -:--:--",
        "shop: bulk 1/2 -:--:--",
        "",
    ]


@pytest.mark.usefixtures("_wide")
def test_a_run_has_bars_only_beside_lines_of_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.json").write_text('{"id": 1, "at": "2024-03-01T09:00:00Z"}\n')
    (tmp_path / "deploy.toml").write_text(CONFIG)
    found = {}
    for options in ("", "--quiet", "--log-format=json"):
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert main(["run", str(tmp_path / "deploy.toml"), "--until-idle", *filter(None, [options])]) == 0
        written = sys.stderr.getvalue()  # type: ignore[attr-defined]
        found[options] = ("━" in written, written.count(" rows in,"))
    assert found == {"": (True, 3), "--quiet": (False, 0), "--log-format=json": (False, 3)}
