"""``headwater plot``, over the example backend: its tables outlive their process, and it needs no JVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

DEPLOYMENT = """
[backend]
name = "parquet"
path = "lake"

[sources.views]
kind = "files"
path = "in"
schema = "at timestamp, page string, visitor string"
event_time = "at"

[pipelines.page_views]
service = "cumulate"
source = "views"
step = "1m"
time_zone = "Asia/Shanghai"
dimensions = [["page"], []]
measures = { pv = "count(*)", last = "max(visitor)", uv = "count(distinct visitor)" }
"""
VIEWS = [("00:10", "a"), ("00:20", "a"), ("01:10", "b"), ("03:10", "a"), ("03:20", None), ("04:00", "b")]


@pytest.fixture
def config(tmp_path: Path, parquet_backend: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"at": f"2024-03-01T16:{at}Z", "page": page, "visitor": "ann"}) for at, page in VIEWS]
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return str(tmp_path / "deploy.toml")


@pytest.fixture
def ran(config: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    return config


def test_a_curve_in_the_terminal(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups by how high they rise; steps without a tick have no mark."""
    assert main(["plot", ran, "page_views"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "page_views.curve from 2024-03-01T16:00:00Z: pv"
    assert lines[1] == "   3 |   *"
    assert lines[6] == "     |*"
    assert lines[11] == "     | o +"
    assert lines[16] == "   0 |"
    assert lines[17:] == [
        "     +----",
        "      00:01 00:04  Asia/Shanghai",
        "  * a (2 of 4 steps without a tick)",
        "  o b (3 of 4 steps without a tick)",
        "  + null (3 of 4 steps without a tick)",
    ]


def test_another_curve_and_measure(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", ran, "page_views.curve_total", "--measure", "uv", "--as-of", "2024-03-01T16:02:30Z"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "page_views.curve_total from 2024-03-01T16:00:00Z: uv"
    assert lines[1] == "   1 |**"
    assert lines[-1] == "  * all"


def test_groups_that_look_alike_have_labels_of_their_own(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text is quoted where it could be taken for null, for the total, or for two texts."""
    Path(config).write_text(DEPLOYMENT.replace('[["page"], []]', '[["page", "visitor"]]'))
    groups = [("a, b", "c"), ("a", "b, c"), (None, "x"), ("null", "x"), ("", 'say "x"'), ("all", "Ann B.")]
    lines = [json.dumps({"at": "2024-03-01T16:00:10Z", "page": page, "visitor": name}) for page, name in groups]
    lines.append(lines[-1].replace("16:00:10", "16:01:00"))
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    assert main(["plot", config, "page_views"]) == 0
    labels = [line[4:] for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and ", " in line]
    assert labels == ['"", "say \\"x\\""', '"a, b", c', '"all", Ann B.', '"null", x', 'a, "b, c"', "null, x"]


def test_a_group_is_one_line_of_the_legend(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `show` prints it."""
    views = [{"at": f"2024-03-01T16:0{minute}:10Z", "page": "c\nd\x1b[31m\u2028e"} for minute in range(2)]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, views)))
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    assert main(["plot", config, "page_views"]) == 0
    assert capsys.readouterr().out.split("\n")[-2:] == [r"  * c\nd\x1b[31m\u2028e", ""]
    assert main(["show", config, "page_views"]) == 0
    assert r" c\nd\x1b[31m\u2028e " in capsys.readouterr().out


def test_the_greatest_groups_alone(ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", ran, "page_views", "--groups", "1"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "steps without" in line] == [
        "  * a (2 of 4 steps without a tick)"
    ]


@pytest.mark.parametrize(("name", "begins"), [("curve.svg", b"<?xml"), ("curve.PNG", b"\x89PNG")])
def test_a_picture_is_the_same_when_it_is_drawn_again(
    ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, begins: bytes
) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    drawn = []
    for at in ("1", "2"):
        (tmp_path / at).mkdir()
        assert main(["plot", ran, "page_views", "--output", str(tmp_path / at / name)]) == 0
        drawn.append((tmp_path / at / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(begins)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"headwater: page_views.curve is drawn in {tmp_path / '2' / name}\n")


def test_a_picture_tells_what_is_missing(ran: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        assert main(["plot", ran, "page_views", "--output", str(tmp_path / "curve.svg")]) == 0
    text = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    for said in ("a (2 of 4 steps without a tick)", "null (3 of 4 steps without a tick)", "Asia/Shanghai", "pv"):
        assert said in text


def test_a_picture_names_what_its_fonts_cannot_draw(
    config: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In one message of ours, whatever Matplotlib warns of."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    pages = ["日本", "a\nb", "x" * 300]
    views = [{"at": f"2024-03-01T16:0{minute}:10Z", "page": page} for minute in range(2) for page in pages]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, views)))
    assert main(["run", config, "--until-idle"]) == 0
    capfd.readouterr()
    assert main(["plot", config, "page_views", "--output", str(tmp_path / "curve.png"), "--log-format", "json"]) == 0
    warned, drawn = map(json.loads, capfd.readouterr().err.splitlines())
    assert (warned["level"], drawn["level"]) == ("warning", "info")
    assert warned["message"].startswith("headwater: the fonts of Matplotlib lack characters of 日本: the picture has")


@pytest.mark.parametrize("page", ["$x_{$", "a $5$ b", "_page", "\\"])
def test_a_value_is_drawn_as_it_is(config: str, tmp_path: Path, page: str) -> None:
    """It is not taken for a formula, or for a label to leave out."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    from matplotlib import rc_context

    views = [{"at": f"2024-03-01T16:0{minute}:10Z", "page": page} for minute in range(2)]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, views)))
    assert main(["run", config, "--until-idle"]) == 0
    with rc_context({"svg.fonttype": "none"}):
        assert main(["plot", config, "page_views", "--output", str(tmp_path / "curve.svg")]) == 0
    assert f">{page}<" in (tmp_path / "curve.svg").read_text(encoding="utf-8")


def test_without_matplotlib_the_extra_is_named(
    ran: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith(("matplotlib.", "headwater.adapters.plot.files"))]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["plot", ran, "page_views", "--output", str(tmp_path / "curve.svg")]) == 1
    assert "matplotlib is not installed: run pip install 'headwater[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["page_view"], "there is no pipeline 'page_view'; there are: page_views; did you mean 'page_views'?"),
        (["page_views.ticks"], "'page_views.ticks' is not a curve; there are: curve, curve_page, curve_total"),
        (["page_views", "--measure", "last"], "last is not a measure that can be drawn; there are: pv, uv"),
        (["page_views", "--output", "curve.pdf"], "--output curve.pdf: pictures are .png or .svg files"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["plot", config, *arguments]) == 2
    assert capsys.readouterr() == ("", f"headwater: {message}\n")


def test_nothing_to_draw_yet(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", config, "page_views"]) == 0
    assert capsys.readouterr() == (
        "",
        "headwater: page_views.curve has no tick yet, so there is nothing to draw\n",
    )


def test_other_services_have_no_curves(
    tmp_path: Path, parquet_backend: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deploy.toml").write_text(ranked_contracts(backend='name = "parquet"\npath = "lake"\n'))
    assert main(["plot", str(tmp_path / "deploy.toml"), "ranked"]) == 2
    assert "pipeline 'ranked' has no curves; only cumulate windows have" in capsys.readouterr().err
