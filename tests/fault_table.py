"""A pytest plugin: the outcomes of the fault tests of a run, written as the table in docs/faults.md.

``pytest tests/faults features -m faults --faults-table docs/faults.md`` writes it; cells of tests that a run leaves out
stay as they are. With ``--collect-only`` as well, the cells only say which tests there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import define, field
from pytest_bdd.scenario import scenario_wrapper_template_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

BACKENDS = ("memory", "delta:local", "delta", "hudi-mor", "hudi-cow")
_SAME = {"hudi-mor:local": "hudi-mor", "hudi-cow:local": "hudi-cow"}
"""One column for both engines of Hudi: both write through Spark."""
NOTHING = "-"
_HOW = "survived"
_BY_DEFAULT = "continues"
_FAILED = "**FAILED**"
_INTRODUCTION = """\
# Faults, and their outcomes

`make faults` writes this page from a run of the fault suite (`tests/faults`, and the scenarios tagged `@faults`). A cell
shows what happened to the pipeline or the reader:

- *continues*: it continued by itself or with the next run;
- *refused*: it stopped with this error until the remedy was applied;
- a dash: there is no test, because the fault cannot occur there (memory has no files), or another backend shows it.

`delta:local` is the backend delta with `engine = "local"`; both engines of Hudi share a column. Afterwards every row was correct. [Operations](operations.md) has the remedies.

"""


@define
class _Table:
    """The outcome of each fault on each backend, in words."""

    cells: dict[str, dict[str, str]] = field(factory=dict)

    def add(self, fault: str, backend: str, how: str) -> None:
        """Enter the outcome of a test; a failure is never overwritten by other tests of the same fault."""
        row = self.cells.setdefault(fault, {})
        if row.get(backend) != _FAILED:
            row[backend] = how

    def add_page(self, page: str) -> None:
        """Enter the page of an earlier run; cells of this run have priority."""
        for fault, *cells in _rows(page):
            row = dict(zip(BACKENDS, cells, strict=True))
            self.cells[fault] = {backend: how for backend, how in row.items() if how != NOTHING} | self.cells.get(
                fault, {}
            )

    def page(self) -> str:
        """The whole page."""
        return _INTRODUCTION + "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"| fault | {' | '.join(BACKENDS)} |"
        yield "|---" * (len(BACKENDS) + 1) + "|"
        for fault, row in self.cells.items():
            yield f"| {fault} | {' | '.join(row.get(backend, NOTHING) for backend in BACKENDS)} |"


_KEY = pytest.StashKey[_Table]()


def entered(page: str) -> set[tuple[str, str]]:
    """The faults and backends that a page has an entry for."""
    table = _Table()
    table.add_page(page)
    return {(fault, backend) for fault, row in table.cells.items() for backend in row}


def _rows(page: str) -> list[list[str]]:
    """The cells of a page's table, row by row, without its head."""
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the page to write."""
    parser.addoption("--faults-table", type=Path, metavar="FILE", help="write what the fault tests survived")


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty table."""
    config.stash[_KEY] = _Table()


def pytest_collection_finish(session: pytest.Session) -> None:
    """If tests are only collected, enter those that would run."""
    if session.config.option.collectonly:
        for item in session.items:
            _enter(item, _BY_DEFAULT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Enter how a fault test ended."""
    report = yield
    if report.failed:
        _enter(item, _FAILED)
    elif report.when == "call":
        _enter(item, dict(item.user_properties).get(_HOW, _BY_DEFAULT))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the page, if the option names one."""
    if page := session.config.option.faults_table:
        table = session.config.stash[_KEY]
        if page.exists():
            table.add_page(page.read_text(encoding="utf-8"))
        page.write_text(table.page(), encoding="utf-8")


@pytest.fixture
def survived(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Records the outcome of a fault, if it is not that the run continued."""
    return lambda how: request.node.user_properties.append((_HOW, how))


def _enter(item: pytest.Item, how: str) -> None:
    mark = item.get_closest_marker("faults")
    backend = _backend(item, mark) if mark else None
    if mark and backend in BACKENDS:
        item.config.stash[_KEY].add(_fault(item, mark), backend, how)


def _fault(item: pytest.Item, mark: pytest.Mark) -> str:
    """The name of the fault: the text of the mark, or the name of the scenario."""
    if mark.args:
        return mark.args[0]
    assert isinstance(item, pytest.Function)
    return scenario_wrapper_template_registry[item.obj].name.replace("<", "*").replace(">", "*")


def _backend(item: pytest.Item, mark: pytest.Mark) -> str | None:
    """The backend that the mark names, or else a parameter."""
    given = getattr(item, "callspec", None)
    values = [_SAME.get(value, value) for value in (given.params.values() if given else ()) if isinstance(value, str)]
    named = [value for value in values if value in BACKENDS]
    return mark.kwargs.get("backend") or next(iter(named), None)
