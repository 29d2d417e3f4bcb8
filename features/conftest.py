"""The steps of the feature files, and the backends they run over."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pytest_bdd import given, parsers, then, when

from headwater.domain.errors import HeadwaterError
from headwater.testing.backends import Backend, delta_backend, hudi_backend, memory_backend

from .contracts import Contracts, Crash, table_rows

if TYPE_CHECKING:
    from pathlib import Path

Table = list[list[str]]


BACKENDS = [
    "memory",
    pytest.param("delta", marks=pytest.mark.delta),
    pytest.param("hudi-mor", marks=pytest.mark.hudi),
    pytest.param("hudi-cow", marks=pytest.mark.hudi),
]


@pytest.fixture(params=BACKENDS, autouse=True)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """The backend a scenario runs over."""
    match request.param:
        case "memory":
            return memory_backend()
        case "delta":
            return delta_backend(request.getfixturevalue("spark"), str(tmp_path))
        case hudi:
            return hudi_backend(request.getfixturevalue("spark"), str(tmp_path), hudi)


@pytest.fixture
def contracts(backend: Backend) -> Contracts:
    """The pipeline that a scenario is about."""
    return Contracts(backend)


@given("contracts with a project, a contract, a sign_time and an amount")
def _(contracts: Contracts) -> None:
    assert contracts.schema.names == ("project", "contract", "sign_time", "amount")


@given(parsers.parse("they are ranked by sign_time within each project, in segments of {segment}"))
def _(contracts: Contracts, segment: str) -> None:
    contracts.configure(segment=segment)


@given(parsers.re(r"the method is (?P<method>\w+), (?P<direction>ascending|descending)(, with nulls (?P<nulls>\w+))?"))
def _(contracts: Contracts, method: str, direction: str, nulls: str | None) -> None:
    ties = ("contract",) if method == "row_number" else ()
    contracts.configure(method=method, descending=direction == "descending", tie_break=ties, nulls=nulls or "last")


@given(parsers.parse("segments are days of {zone}"))
def _(contracts: Contracts, zone: str) -> None:
    contracts.configure(segment="1d", time_zone=zone)


@given("the rows are a changelog")
def _(contracts: Contracts) -> None:
    contracts.changelog = True


@given(parsers.parse("the view top shows {top:d} ranks"))
def _(contracts: Contracts, top: int) -> None:
    contracts.configure(top=top)


@given("the view ranks is materialized")
def _(contracts: Contracts) -> None:
    contracts.materialize = ("ranks",)


@given("an epoch has brought")
@when("an epoch brings")
def _(contracts: Contracts, datatable: Table) -> None:
    contracts.give(datatable)
    contracts.run()


@when(parsers.parse("the run dies {moment} while an epoch brings"))
def _(contracts: Contracts, moment: str, datatable: Table) -> None:
    contracts.give(datatable)
    with pytest.raises(Crash):
        contracts.run_dying(moment)


@when("the store cannot be reached once while an epoch brings")
def _(contracts: Contracts, datatable: Table) -> None:
    contracts.give(datatable)
    contracts.run_with_a_fault()


@when("the source receives")
def _(contracts: Contracts, datatable: Table) -> None:
    contracts.give(datatable)


@when("a new run goes on")
def _(contracts: Contracts) -> None:
    contracts.run()


@given("a second run has opened the pipeline", target_fixture="second")
def _(contracts: Contracts) -> Any:
    return contracts.second_run()


@when("the second run tries an epoch of its own", target_fixture="failure")
def _(second: Any) -> HeadwaterError:
    with pytest.raises(HeadwaterError) as caught:
        second.advance()
    return caught.value


@then(parsers.parse("the second run fails with {name}"))
def _(failure: HeadwaterError, name: str) -> None:
    assert type(failure).__name__ == name


@given("a reader holds the ranks", target_fixture="held")
def _(contracts: Contracts) -> Any:
    return contracts.view("ranks")


@when("the tables are compacted")
def _(contracts: Contracts) -> None:
    contracts.compact()


@then("the reader still sees")
def _(held: Any, datatable: Table) -> None:
    assert table_rows(held, datatable[0]) == sorted(map(tuple, datatable[1:]))


@then("the ranks are")
def _(contracts: Contracts, datatable: Table) -> None:
    assert table_rows(contracts.view("ranks"), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then("there are no ranks")
def _(contracts: Contracts) -> None:
    assert table_rows(contracts.view("ranks"), ["contract"]) == []


@then(parsers.re(r"contracts (?P<named>[\d, and]+) have the ranks (?P<ranks>[\d, ]+)"))
def _(contracts: Contracts, named: str, ranks: str) -> None:
    expected = dict(zip(named.replace(" and", ",").split(","), ranks.split(","), strict=True))
    got = table_rows(contracts.view("ranks"), ["contract", "rank"])
    assert got == sorted((contract.strip(), rank.strip()) for contract, rank in expected.items())


@then("the top ranks are")
def _(contracts: Contracts, datatable: Table) -> None:
    assert table_rows(contracts.view("top"), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then("the bases are")
def _(contracts: Contracts, datatable: Table) -> None:
    assert table_rows(contracts.view("base"), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then("the last epoch moved")
def _(contracts: Contracts, datatable: Table) -> None:
    assert table_rows(contracts.changes(), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then("the dead letters are")
def _(contracts: Contracts, datatable: Table) -> None:
    assert table_rows(contracts.stored("dead_letters"), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then(parsers.parse("the table {name} holds"))
def _(contracts: Contracts, name: str, datatable: Table) -> None:
    assert table_rows(contracts.stored(name), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then(parsers.parse("the ranks as of {moment} are"))
def _(contracts: Contracts, moment: str, datatable: Table) -> None:
    view = contracts.view("ranks", as_of=datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert table_rows(view, datatable[0]) == sorted(map(tuple, datatable[1:]))


@then(parsers.parse("the ranks as known at epoch {epoch:d} are"))
def _(contracts: Contracts, epoch: int, datatable: Table) -> None:
    assert table_rows(contracts.view("ranks", epoch=epoch), datatable[0]) == sorted(map(tuple, datatable[1:]))


@then(parsers.parse("{count:d} epochs are published"))
def _(contracts: Contracts, count: int) -> None:
    assert contracts.published() == count
