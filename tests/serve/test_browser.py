"""The status page in Chromium, while the pipelines run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from .test_web import feed, wait_for_line, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.slow

WAIT_SECONDS = 60
NEXT = (
    '{"page": "a", "visit": 5, "at": "2024-03-01T09:04:00Z"}\n{"page": "c", "visit": 6, "at": "2024-03-01T09:05:00Z"}\n'
)


class Page:
    """The page as somebody who looks at it."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def find(self, css: str) -> list[WebElement]:
        return self.browser.find_elements("css selector", css)

    def texts(self, css: str) -> list[str]:
        """What all elements say at one moment, though the page may be drawn again."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
        found: list[str] = self.browser.execute_script(script, css)
        return found

    def rows(self, css: str) -> list[list[str]]:
        """The cells of a table, at one moment."""
        script = (
            "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        found: list[list[str]] = self.browser.execute_script(script, css)
        return found

    def wait(self, holds: Callable[[], object]) -> None:
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, WAIT_SECONDS, 0.1).until(lambda _: holds())

    def choose(self, pipeline: str) -> None:
        """Click a pipeline in the flow; its box may be drawn again between looking and clicking."""
        script = (
            "[...document.querySelectorAll('#flow a')].find((box) => box.querySelector('.name').textContent"
            " === arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        self.browser.execute_script(script, pipeline)
        self.wait(lambda: self.texts("#detail-title") == [pipeline])

    def type(self, field: str, value: str) -> None:
        (found,) = self.find(field)
        found.clear()
        found.send_keys(value)

    def problems(self) -> list[Any]:
        """What the console has shown since this was asked last."""
        return [each for each in self.browser.get_log("browser") if each["level"] in {"SEVERE", "WARNING"}]  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("Chromium is not installed: apt-get install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1240,1800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with Chrome(options, ChromeService(driver)) as started:
        yield started


@contextmanager
def serving(config: Path, *arguments: str, token: str | None = None) -> Iterator[str]:
    """The address of a server that runs the pipelines."""
    command = [sys.executable, "-m", "headwater", "serve", str(config), "--port", "0", "--run", "--quiet", *arguments]
    environ = {name: value for name, value in os.environ.items() if name != "HEADWATER_TOKEN"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environ | ({"HEADWATER_TOKEN": token} if token else {})
    ) as server:
        try:
            yield wait_for_line(server)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_SECONDS) == 0


def test_a_run_is_seen_as_it_goes_on(browser: Chrome, tmp_path: Path) -> None:
    page = Page(browser)
    with serving(write(tmp_path)) as address:
        browser.get(address)
        page.wait(lambda: [row[2] for row in page.rows("#pipelines")] == ["1", "1", "1"])
        assert page.problems() == []
        assert page.texts("#flow .name") == ["visits", "ranks", "curve", "sizes"]
        assert len(page.find("#flow .edge")) == 3

        page.choose("ranks")
        page.wait(lambda: {"■ read", "■ step"} <= set(page.texts("#phases-key .key")))
        (reason, count), (epoch, *_, raw) = page.rows("#letters")
        assert ("not JSON" in reason, count) == (True, "1")
        assert (epoch, raw) == ("1", '{"page": "a"')
        both = [["<b>b</b>", "3", "2024-03-01T09:02:00Z", "1"], ["a", "1", "2024-03-01T09:00:00Z", "1"]]
        page.wait(lambda: page.rows("#rows") == both)
        page.type("#at", "0")
        page.find("#ask button")[0].click()
        page.wait(lambda: page.rows("#rows") == both[1:])
        page.type("#at", "7")
        page.find("#ask button")[0].click()
        page.wait(lambda: "no epoch 7" in "".join(page.texts("#rows .error")))
        page.problems()  # the console names the answer 404
        browser.execute_script("window.loaded = 'once'")
        feed(tmp_path, "c.json", NEXT)
        page.wait(lambda: page.rows("#pipelines")[0][2] == "2")
        page.choose("curve")
        page.wait(lambda: page.texts("#curve polyline title") == ["all"])
        assert "visits" in page.texts("#curve-title")[0]
        page.wait(lambda: ["2024-03-01T09:05:00Z", "", "3"] in [row[1:4] for row in page.rows("#rows")])
        assert browser.execute_script("return window.loaded") == "once"
        assert page.problems() == []


def test_elsewhere_it_asks_for_the_token(browser: Chrome, tmp_path: Path) -> None:
    page = Page(browser)
    with serving(write(tmp_path), "--host", "0.0.0.0", token="s3cret") as address:
        place = address.removeprefix("http://0.0.0.0")
        browser.get(f"http://localhost{place}")
        assert page.find("h1") == []
        page.problems()  # the console names the answer 401
        browser.get(f"http://anyone:s3cret@localhost{place}")
        page.wait(lambda: len(page.rows("#pipelines")) == 3)
        assert page.problems() == []
