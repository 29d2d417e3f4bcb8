"""Names of logs: no two logs share one, and ordinary names are as earlier versions made them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from headwater.domain.source.changelog.log_name import name_log, plain_name

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
PIECES = (" ", " ", "#", "0", "5", ".", "-", "a", "b", '"', "[", '["', "]", "null", "\\", "\x1f", "\n", " #0", "0-1")


def earlier(*parts: str | int | None) -> str:
    """The name that earlier versions gave a log."""
    return " ".join(str(each) for each in parts if each not in (None, ""))


@pytest.mark.parametrize(
    "parts",
    [
        ("binlog", None, None),
        ("mysql-bin", 223344, None),
        ("mysql-bin.shop", "223344", SERVER),
        ("binlog", None, f"{SERVER}:nightly"),
        ("binlog", 0, "0-1"),
        ("my bin", 5, None),
        ("bin #1", None, None),
        ("b#0", 5, None),
        ("", None, None),
        ("binlog", "shop", 223344, SERVER),
        ("binlog", "shop.eu-1", 0, None),
        ("my bin", "shop", 5, "0-1"),
        ("binlog", None, 5, None),
        ("binlog", "5", 7, None),
    ],
)
def test_an_ordinary_name_is_as_it_was(parts: tuple[str | int | None, ...]) -> None:
    assert name_log(*parts) == earlier(*parts)
    assert plain_name(name_log(*parts)) is None


def test_a_name_that_another_log_may_have_is_a_list() -> None:
    assert name_log("bin #0", None, None) == '["bin #0", null, null]'
    assert name_log("", 5, None) == '["", "5", null]'
    assert name_log("a b", "c", None, None) != name_log("a", "b c", None, None)
    assert name_log("a 5", None, None) != name_log("a", 5, None) == "a 5"
    assert plain_name('orders/0 ["bin #0", "5", null]') == "orders/0 bin #0 5"


def draw(random: Random) -> str | None:
    return "".join(random.choices(PIECES, k=random.randrange(4))) or None


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [3, 4])
def test_names_differ_as_their_logs_do(seed: int, count: int) -> None:
    random, logs = Random(seed), {}
    for _ in range(20_000):
        parts = tuple(draw(random) for _ in range(count))
        name = name_log(parts[0] or "", *parts[1:])
        assert logs.setdefault(name, parts) == parts
        assert not f" {name}".endswith(" #0")
        assert not any(char in name for char in "\x1f\n")
        assert name == earlier(*parts) if plain_name(name) is None else plain_name(name) == earlier(*parts)


def test_short_names_all_differ() -> None:
    texts = [None, *map("".join, (text for size in (1, 2, 3) for text in product("a5 -#", repeat=size)))]
    few = [None, "5", "a", "5-5", " ", "5 5", "a #"]
    made = {name_log(base or "", *servers) for base in texts for servers in product(few, repeat=2)}
    assert len(made) == len(texts) * len(few) ** 2
