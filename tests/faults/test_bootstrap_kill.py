"""`kill -9` of the load of a history, again and again: finished work is not repeated, and no row is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .deployments import lake
from .processes import headwater, running

pytestmark = pytest.mark.faults("kill -9 of the load of a history, three times")

DEPLOYMENT = Path(__file__).parents[2] / "features" / "bootstrap.toml"
FILES, ROWS = 5, 20
BACKENDS = [
    "delta:local",
    pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.slow]),
    pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.slow]),
]


@pytest.fixture(params=BACKENDS)
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    text = DEPLOYMENT.read_text(encoding="utf-8")
    text = text.replace('name = "memory"\ncompact_every = 0\n', lake(request.param))
    for source in ("info", "stock"):
        kafka = f'kind = "kafka"\nservers = "127.0.0.1:9092"\ntopics = ["shop.{source}"]'
        text = text.replace(kafka, f'kind = "files"\npath = "{source}"')
        (tmp_path / source).mkdir()
    (tmp_path / "deploy.toml").write_text(text)
    (tmp_path / "history").mkdir()
    for file in range(FILES):
        rows = ({"shop_id": shop, "items": 100 * file + shop, "seq": _sequence(file, shop)} for shop in range(ROWS))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "history" / f"{file}.json").write_text(text)
    return tmp_path / "deploy.toml"


def _sequence(file: int, shop: int) -> int:
    """Each shop's newest record lies in another file."""
    return (file + shop) % FILES


def expected() -> dict[int, int]:
    newest = {shop: max(range(FILES), key=lambda file: _sequence(file, shop)) for shop in range(ROWS)}
    return {shop: 100 * file + shop for shop, file in newest.items()}


def test_killed_while_it_loads(config: Path) -> None:
    arguments = ("shop", "--from", f"stock={config.parent / 'history'}:json", "--files-per-chunk", "1")
    with running(config, *arguments, command="bootstrap") as load:  # chunk by chunk
        load.wait_until(lambda: load.epochs == 2)
        load.kill()
    with running(config, *arguments, command="bootstrap") as load:  # what is there is not read again
        load.wait_until(lambda: load.epochs == 1)
        load.kill()
    assert " epoch 2: " in "".join(load.said)
    with running(config, *arguments, command="bootstrap") as load:  # all is gathered, and the load has begun
        load.wait_until(lambda: any(" epoch 4: " in line for line in load.said))
        load.kill()
    done = headwater("bootstrap", str(config), *arguments)
    assert done.returncode == 0, done.stderr
    shown = headwater("show", str(config), "shop.rows", "--format", "jsonl")
    found = {row["shop_id"]: row["item_count"] for row in map(json.loads, shown.stdout.splitlines())}
    assert found == expected()
