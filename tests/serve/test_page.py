"""What the script of the status page makes of numbers, in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files

import pytest

STAND_IN = """
const stub = new Proxy(function () {}, { get: (_, name) => (name === Symbol.toPrimitive ? () => "" : stub), apply: () => stub });
globalThis.location = { origin: "", pathname: "", hash: "" };
globalThis.window = stub;
globalThis.fetch = () => new Promise(() => {});
globalThis.setTimeout = () => {};
globalThis.document = { getElementById: () => stub, createElement: () => ({ words: [], append(...all) { this.words.push(...all); } }) };
globalThis.Node = class {};
"""
SHOW = (
    "\nprocess.stdout.write(JSON.stringify(parseExactly(process.argv[1]).rows[0].map((each) => cell(each).words[0])));"
)


def show(row: str) -> list[str]:
    """What the cells of a row show, which the API has sent as JSON."""
    if (node := shutil.which("node")) is None:
        pytest.skip("Node is not installed: apt-get install nodejs")
    script = STAND_IN + files("headwater.app.serve").joinpath("page.js").read_text(encoding="utf-8") + SHOW
    sent = json.dumps({"columns": []})[:-1] + f', "rows": [{row}]}}'
    done = subprocess.run([node, "-e", script, sent], capture_output=True, text=True, check=True, timeout=60)
    found: list[str] = json.loads(done.stdout)
    return found


def test_numbers_are_shown_as_they_are() -> None:
    numbers = "[9007199254740993, -9223372036854775808, 0.0004, 1.23456789, -1234567.891, 1e-07, 1.5e+300, 0, 100]"
    assert show(numbers) == [
        "9,007,199,254,740,993",
        "-9,223,372,036,854,775,808",
        "0.0004",
        "1.23456789",
        "-1,234,567.891",
        "1e-07",
        "1.5e+300",
        "0",
        "100",
    ]


def test_texts_are_not_numbers() -> None:
    texts = ["5", "n5", 'a "quoted": 5', "a\\", "[1, 2]", "", "ü\u0000", "NaN"]
    assert show(json.dumps([*texts, True, None])) == [*texts, "true", "\u2013"]


def test_nested_values_keep_their_numbers() -> None:
    nested = '[{"n": 9007199254740993, "5": [1.50, "2", null, {"a:": true}]}, [], {}]'
    assert show(nested) == ['{"5":[1.50,"2",null,{"a:":true}],"n":9007199254740993}', "[]", "{}"]
