"""The latest rows in a deployment: deletes, dead letters, versions, and mistakes in the configuration."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater import Headwater
from headwater.app.cli.main import main
from headwater.domain.errors import ConfigError

SHOP = Path(__file__).parents[1] / "shop.toml"


def stock(item: str | None, pieces: int, op: str = "+I", hour: int = 9) -> dict[str, Any]:
    return {"shop": "mill", "item": item, "pieces": pieces, "at": f"2024-03-01T{hour:02d}:00:00Z", "op": op}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "stock").mkdir()
    return Path(shutil.copy(SHOP, tmp_path))


@pytest.fixture
def bring(shop: Path) -> Callable[..., None]:
    def write(*rows: dict[str, Any]) -> None:
        folder = shop.parent / "stock"
        (folder / f"{len(list(folder.iterdir()))}.json").write_text("\n".join(map(json.dumps, rows)))

    return write


def rows(headwater: Headwater, **at: Any) -> list[tuple[Any, ...]]:
    return headwater.view("stock_now.rows", **at).sort("item").select("item", "pieces").rows()


def test_the_latest_row_of_each_key_stays(shop: Path, bring: Callable[..., None]) -> None:
    bring(stock("flour", 3), stock("rye", 1), stock("flour", 5))
    bring(stock("flour", 4), stock("rye", 1, "-D"), stock("oats", 2))
    with Headwater.from_config(shop, report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        assert rows(headwater) == [("flour", 4), ("oats", 2)]
        assert rows(headwater, at=0) == [("flour", 5), ("rye", 1)]


def test_a_delete_and_an_insert_of_one_batch_count_in_their_order(shop: Path, bring: Callable[..., None]) -> None:
    bring(stock("flour", 3), stock("rye", 1))
    bring(stock("flour", 3, "-D"), stock("flour", 7), stock("rye", 2), stock("rye", 2, "-D"))
    with Headwater.from_config(shop, report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        assert rows(headwater) == [("flour", 7)]


def test_a_row_without_a_key_is_a_dead_letter(shop: Path, bring: Callable[..., None]) -> None:
    bring(stock(None, 3), stock("rye", 1))
    with Headwater.from_config(shop, report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        assert rows(headwater) == [("rye", 1)]
        (status,) = headwater.status()
        assert status.dead_letters == 1


def test_the_command_line_checks_runs_and_shows_it(
    shop: Path, bring: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    bring(stock("rye", 1))
    assert main(["check", str(shop)]) == 0
    assert "the latest row of each key" in capsys.readouterr().out
    assert main(["run", str(shop), "--until-idle", "--show", "stock_now.rows"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["mill", "rye", "1", "2024-03-01T09:00:00Z"]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("key =", "keys =", r"shop.toml:16: .*unknown key; .*did you mean 'key'"),
        ('"item"]', '"itme"]', r"shop.toml:16: .*itme"),
        ('"item"]', '"at"]', r"shop.toml:16: .*'at' is the event time"),
        ('"latest"', '"newest"', r"shop.toml:14: .*latest"),
    ],
)
def test_mistakes_are_reported_with_their_line(shop: Path, right: str, wrong: str, message: str) -> None:
    shop.write_text(shop.read_text().replace(right, wrong))
    with pytest.raises(ConfigError, match=message):
        Headwater.from_config(shop)


def test_explain_is_for_materialized_views(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(shop), "stock_now"]) == 2
    assert "is not a materialized view" in capsys.readouterr().err
