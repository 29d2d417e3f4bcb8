"""`headwater plan` says before an edit what the next run does with it; each verdict is held against that run."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headwater import Headwater
from headwater.app.cli.main import main
from headwater.app.run.clock import SystemClock
from headwater.app.wiring.edits import Edit, Verdict, plan_edits
from headwater.domain.errors import HeadwaterError
from tests.kafka_reading import committed

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.testing.kafka_broker import KafkaBroker

EVENTS = """
[backend]
name = "delta"
engine = "local"
path = "{folder}/lake"
[sources.events]
kind = "files"
path = "{folder}/in"
format = "json"
"""
DEPLOYMENT = (
    EVENTS
    + """\
schema = "op string, id int, g string, v int, w double, t timestamp"
row_kind = "op"
event_time = "t"

[pipelines.ranked]
service = "ranking"
source = "events"
group = ["g"]
id = ["id"]
order_by = "v"
segment = "10"
offset = "0"
top = 2
materialize = ["top"]

[pipelines.totals]
service = "retraction"
source = "events"
group = ["g"]
updated_at = "t"
identity = "none"
measures = {{ n = "count(*)", total = "sum(v)" }}

[pipelines.ticks]
service = "cumulate"
source = "events"
step = "1m"
dimensions = [["g"], ["id"], ["g", "id"]]
measures = {{ n = "count(*)", total = "sum(v)" }}

[pipelines.wide]
service = "wide_table"
key = ["id"]
materialize = ["completeness"]
[pipelines.wide.topics.one]
source = "events"
sequence = ["t"]
columns = ["g", "v"]

[pipelines.merged]
service = "bulk_merge"
key = ["id"]
columns = ["g", "v"]
changelog = "events"
bulk = {{ path = "{folder}/bulk", format = "json", search_ts = "2024-03-01T00:00:00Z" }}

[pipelines.best]
service = "materialized_view"
inputs = {{ r = "ranked.top" }}
key = ["id"]
sql = "SELECT id, rank FROM r"

[pipelines.shown]
service = "snapshots"
inputs = {{ r = "ranked.ranks" }}
every = "15m"
[pipelines.shown.tables]
counted = "SELECT g, count(*) AS n FROM r GROUP BY g"
"""
)
SCHEMA = 'schema = "op string, id int, g string, v int, w double, t timestamp"'
WIDER = "v bigint, w double"
KEPT = 'materialize = ["completeness"]\n[pipelines.wide.topics.one]'
TWO = '[pipelines.wide.topics.two]\nsource = "events"\nsequence = ["t"]\ncolumns = ["w"]\n[pipelines.wide.topics.one]'
EDITS = [
    # ranking
    ("ranked", 'offset = "0"', 'offset = "0"\nrepeats = "same-segment"', Verdict.NOTHING, ""),
    ("ranked", "top = 2", "top = 3", Verdict.RECOMPUTED, "view top was edited"),
    ("ranked", 'materialize = ["top"]', "", Verdict.REMOVED, "table ranked.top is no longer written"),
    ("ranked", '["top"]', '["top", "ranks"]', Verdict.RECOMPUTED, "view ranks will be stored"),
    ("ranked", 'group = ["g"]\nid', 'group = ["g"]\nmethod = "rank"\nid', Verdict.REBUILD, "method dense_rank -> rank"),
    ("ranked", "t timestamp", "t timestamp, x string", Verdict.WIDENED, "new columns `x` string"),
    ("ranked", "w double, ", "", Verdict.REBUILD, "table ranked.ranked has `w` double, which these settings lack: "),
    ("ranked", "w double", "u double", Verdict.REBUILD, "has `w` double, which these settings lack"),
    ("ranked", "v int, w double", WIDER, Verdict.REBUILD, "order_by v (int) -> v (bigint)"),
    ("ranked", "w double", "w decimal(9,2)", Verdict.REBUILD, "is kept with `w` double but `w` decimal(9,2) is wanted; only"),
    # retraction
    ("totals", "v int, w double", WIDER, Verdict.NOTHING, ""),
    ("totals", '"sum(v)" }}\n\n[pipelines.ticks]', '"max(v)" }}\n\n[pipelines.ticks]', Verdict.REBUILD, "measures"),
    ("totals", "w double, ", "", Verdict.NOTHING, ""),
    ("totals", "w double", "u double", Verdict.NOTHING, ""),
    ("totals", "v int", "v decimal(9,2)", Verdict.REBUILD, "v int -> decimal(9,2)"),
    ("totals", "t timestamp", "t timestamp, x string", Verdict.NOTHING, ""),
    # cumulate
    ("ticks", 'step = "1m"', 'step = "1m"\nlate = "revise"', Verdict.NOTHING, ""),
    ("ticks", 'step = "1m"', 'step = "2m"', Verdict.REBUILD, "step 1m -> 2m"),
    ("ticks", ', ["g", "id"]]', "]", Verdict.REBUILD, "dimensions"),
    ("ticks", '["id"], ["g", "id"]', '["g", "id"], ["id"]', Verdict.NOTHING, ""),
    ("ticks", '["g", "id"]', '["id", "g"]', Verdict.REBUILD, "['g', 'id']] -> [['g'], ['id'], ['id', 'g']]"),
    # wide table
    ("wide", 'columns = ["g", "v"]\n\n[pipelines.m', 'columns = ["g", "v", "w"]\n\n[pipelines.m', Verdict.WIDENED, "`w` double"),
    ("wide", 'columns = ["g", "v"]\n\n[pipelines.m', 'columns = ["g"]\n\n[pipelines.m', Verdict.REBUILD, "column v of topic one (it is gone)"),
    ("wide", "v int, w double", WIDER, Verdict.REBUILD, "type of column v"),
    ("wide", KEPT, f'materialize = ["completeness"]\n{TWO}', Verdict.RECOMPUTED, "completeness was edited: all of its rows change, also"),
    ("wide", KEPT, TWO, Verdict.WIDENED, "view completeness was edited: all of its rows change; table wide.wide: new columns"),
    # bulk merge
    ("merged", "t timestamp", "t timestamp, x string", Verdict.NOTHING, ""),
    ("merged", 'columns = ["g", "v"]\nchangelog', 'columns = ["g", "v", "w"]\nchangelog', Verdict.REBUILD, "columns"),
    ("merged", "v int, w double", WIDER, Verdict.REBUILD, "`v` int -> "),
    ("merged", 'columns = ["g", "v"]\nchangelog', 'columns = ["g"]\nchangelog', Verdict.REBUILD, "columns"),
    ("merged", 'changelog = "events"', 'changelog = "events"\nhistory = "2d"', Verdict.REBUILD, "history 1d -> 2d"),
    ("merged", 'path = "{folder}/bulk"', 'path = "{folder}/other"', Verdict.REFUSED, "came after 0.json had been read"),
    ("merged", 'event_time = "t"', 'event_time = "t2"', Verdict.REBUILD, "event_time t -> t2"),
    # materialized view
    ("best", "SELECT id, rank FROM r", "SELECT id FROM r", Verdict.REBUILD, "has `rank` bigint, which these settings lack"),
    ("best", "SELECT id, rank FROM r", "SELECT id, rank, g FROM r", Verdict.RECOMPUTED, "new columns `g` string"),
    ("best", "SELECT id, rank FROM r", "SELECT id, rank FROM r WHERE rank < 2", Verdict.RECOMPUTED, ""),
    ("best", "top = 2", "top = 3", Verdict.RECOMPUTED, "input ranked.top was edited"),
    ("best", "SELECT id, rank FROM r", "SELECT id, CAST(rank AS string) AS rank FROM r", Verdict.REBUILD, "only new"),
    # snapshots
    ("shown", "count(*) AS n", "CAST(count(*) AS decimal(9,2)) AS n, max(v) AS v", Verdict.RECOMPUTED, ""),
    ("shown", "count(*) AS n", "sum(v) AS n", Verdict.RECOMPUTED, ""),
    ("shown", 'every = "15m"', 'every = "30m"', Verdict.NOTHING, ""),
    # sources
    ("ranked", 'kind = "files"\npath = "{folder}/in"\nformat = "json"', 'kind = "kafka"\nservers = "127.0.0.1:9"\ntopics = ["x"]', Verdict.REFUSED, "another kind"),
    ("totals", 'path = "{folder}/in"', 'path = "{folder}/bulk"', Verdict.REFUSED, "came after"),
]  # fmt: skip


def arrive(folder: Path, number: int, *rows: tuple[Any, ...]) -> None:
    lines = (
        json.dumps({"op": op, "id": id_, "g": "a", "v": v, "w": 0.5, "t": f"2024-03-01T0{number}:00:00Z"})
        for op, id_, v in rows
    )
    (folder / f"{number}.json").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a deployment that has run, and a further file that has not been read."""
    folder = tmp_path_factory.mktemp("plan")
    for name in ("in", "bulk", "other"):
        (folder / name).mkdir()
    arrive(folder / "in", 1, ("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30))
    arrive(folder / "bulk", 0, ("+I", 9, 90))
    shutil.copy(folder / "bulk" / "0.json", folder / "other" / "-.json")
    with Headwater.from_text(DEPLOYMENT.format(folder=folder)) as headwater:
        headwater.run(until_idle=True)
    arrive(folder / "in", 2, ("+I", 4, 5))
    return folder


def planned(headwater: Headwater) -> dict[str, Edit]:
    edits = plan_edits(headwater.deployment, headwater.services, SystemClock())
    assert edits is not None
    return {edit.name: edit for edit in edits}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit[0]}: {edit[2]}")
def test_the_plan_and_the_run_agree(built: Path, tmp_path: Path, edit: tuple[str, str, str, Verdict, str]) -> None:
    pipeline, old, new, verdict, why = edit
    former = DEPLOYMENT.replace("t timestamp", "t timestamp, t2 timestamp") if "t2" in new else DEPLOYMENT
    assert former.count(old) >= 1
    text = former.replace(old, new).format(folder=built)
    if verdict not in {Verdict.REBUILD, Verdict.REFUSED}:  # the others write nothing
        shutil.copytree(built / "lake", tmp_path / "lake")
        text = text.replace(f"{built}/lake", f"{tmp_path}/lake")
    with Headwater.from_text(text) as headwater:
        found = planned(headwater)[pipeline]
        assert (found.verdict, why in "; ".join(found.details)) == (verdict, True), found
        if found.stops:
            with pytest.raises(HeadwaterError) as refused:
                headwater.run([pipeline], until_idle=True)
            assert (str(refused.value),) == found.details
            assert planned(headwater)["events"].verdict is not Verdict.NEW
        else:
            headwater.run([pipeline], until_idle=True)
            assert planned(headwater)[pipeline].verdict is Verdict.NOTHING


def test_tables_of_another_format_in_the_same_folder(built: Path, tmp_path: Path) -> None:
    (tmp_path / "lake" / "ranked" / "ranked" / ".hoodie").mkdir(parents=True)
    with Headwater.from_text(DEPLOYMENT.format(folder=built).replace(f"{built}/lake", f"{tmp_path}/lake")) as headwater:
        edits = planned(headwater)
        assert (edits["ranked"].verdict, edits["totals"].verdict) == (Verdict.REFUSED, Verdict.NEW)
        assert "`headwater move`" in edits["ranked"].details[0]
        with pytest.raises(HeadwaterError) as refused:
            headwater.run(["ranked"], until_idle=True)
        assert (str(refused.value),) == edits["ranked"].details
    text = DEPLOYMENT.format(folder=built).replace('name = "delta"\nengine = "local"', 'name = "hudi-cow"')
    with (
        Headwater.from_text(text) as headwater,
        pytest.raises(HeadwaterError, match=r"'ranked' has tables of delta in .*, and backend hudi-cow would begin"),
    ):
        headwater.run(["ranked"])


def test_tables_of_both_formats_go_on(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "lake", tmp_path / "lake")
    (tmp_path / "lake" / "ranked" / "ranked" / ".hoodie").mkdir()
    with Headwater.from_text(DEPLOYMENT.format(folder=built).replace(f"{built}/lake", f"{tmp_path}/lake")) as headwater:
        assert planned(headwater)["ranked"].verdict is Verdict.NOTHING


@pytest.mark.parametrize("table", ["ranked", "top"])
def test_a_table_that_is_gone(built: Path, tmp_path: Path, table: str) -> None:
    """The plan refuses its pipeline as the run does, and looks at the others."""
    shutil.copytree(built / "lake", tmp_path / "lake")
    text = DEPLOYMENT.format(folder=built).replace(f"{built}/lake", f"{tmp_path}/lake")
    with Headwater.from_text(text) as headwater:
        headwater.run(["ranked"], until_idle=True)
    shutil.rmtree(tmp_path / "lake" / "ranked" / table)
    with Headwater.from_text(text) as headwater:
        edits = planned(headwater)
        assert (edits["ranked"].verdict, edits["totals"].verdict) == (Verdict.REFUSED, Verdict.NOTHING)
        assert "put the table's folder back from a backup" in edits["ranked"].details[0]
        with pytest.raises(HeadwaterError) as refused:
            headwater.run(["ranked"], until_idle=True)
        assert (str(refused.value),) == edits["ranked"].details


def test_a_bulk_that_is_not_due_yet(tmp_path: Path) -> None:
    """The plan looks for its folder as the run does, though nothing of it has been read."""
    for folder in ("in", "bulk", "other"):
        (tmp_path / folder).mkdir()
    waiting = DEPLOYMENT.replace("2024-03-01T00", "2024-03-09T00")
    arrive(tmp_path / "in", 1, ("+I", 1, 10))
    with Headwater.from_text(waiting.format(folder=tmp_path)) as headwater:
        headwater.run(["merged"], until_idle=True)
    arrive(tmp_path / "in", 2, ("+I", 2, 20))
    for folder, verdict in (("other", Verdict.NOTHING), ("none", Verdict.REFUSED)):
        text = waiting.replace("{folder}/bulk", f"{{folder}}/{folder}").format(folder=tmp_path)
        with Headwater.from_text(text) as headwater:
            found = planned(headwater)["merged"]
            assert found.verdict is verdict, found
            if found.stops:
                with pytest.raises(HeadwaterError, match=r"none is not a directory; create it") as refused:
                    headwater.run(["merged"], until_idle=True)
                assert (str(refused.value),) == found.details


def test_the_command(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(built / "lake", tmp_path / "lake")
    text = DEPLOYMENT.format(folder=built).replace(f"{built}/lake", f"{tmp_path}/lake")
    start, end = text.index("[pipelines.merged]"), text.index("[pipelines.best]")
    added = '[pipelines.added]\nservice = "ranking"\nsource = "events"\ngroup = ["g"]\nid = ["id"]\norder_by = "t"\n'
    (tmp_path / "deploy.toml").write_text(text[:start] + added + text[end:])
    before = sorted((each, each.stat().st_mtime_ns) for each in (tmp_path / "lake").rglob("*"))
    assert main(["plan", str(tmp_path / "deploy.toml"), "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(each["kind"], each["name"]): each["verdict"] for each in rows} == {
        **{("pipeline", name): "nothing" for name in ("ranked", "totals", "ticks", "wide", "best", "shown")},
        ("pipeline", "added"): "new",
        ("source", "events"): "nothing",
        ("pipeline", "merged"): "removed",
    }
    assert "left behind: merged." in rows[-1]["details"]
    assert sorted((each, each.stat().st_mtime_ns) for each in (tmp_path / "lake").rglob("*")) == before
    (tmp_path / "deploy.toml").write_text(text.replace('step = "1m"', 'step = "2m"').replace('"local"', '"spark"'))
    assert main(["plan", str(tmp_path / "deploy.toml")]) == 2
    printed = capsys.readouterr()
    assert "built with other settings: step 1m -> 2m" in printed.out
    assert "a run would stop at pipeline ticks; nothing was changed" in printed.err


def test_memory_keeps_nothing(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DEPLOYMENT.format(folder=built).replace('name = "delta"\nengine = "local"', 'name = "memory"')
    (tmp_path / "deploy.toml").write_text(text)
    assert main(["plan", str(tmp_path / "deploy.toml")]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "nothing is stored" in printed.err) == ("", True)


PUBLISHED = (
    EVENTS
    + """\
schema = "id int, v int"
[pipelines.ranked]
service = "ranking"
source = "events"
group = ["v"]
id = ["id"]
order_by = "v"
segment = "10"
offset = "0"
[pipelines.ranked.publish]
servers = "{servers}"
topic = "{topic}"
"""
)


def _plan_and_run(text: str, folder: Path) -> tuple[str, str]:
    """The verdict on an edit, and its reason; a run does the same."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{len(list(folder.glob('in/*')))}.json").write_text('{"id": 1, "v": 2}\n')
    with Headwater.from_text(text) as headwater:
        found = next(each for each in planned(headwater).values() if each.name in headwater.deployment.pipelines)
        if found.stops:
            with pytest.raises(HeadwaterError) as refused:
                headwater.run(until_idle=True)
            assert (str(refused.value),) == found.details
        else:
            headwater.run(until_idle=True)
    return found.verdict.value, "; ".join(found.details)


@pytest.mark.kafka
def test_edits_of_what_is_published(kafka: KafkaBroker, tmp_path: Path) -> None:
    topics = [f"ranked-{number}-{uuid4().hex[:8]}" for number in (1, 2)]
    for topic in topics:
        kafka.create_topic(topic)
    former, other = (PUBLISHED.format(folder=tmp_path, servers=kafka.servers, topic=topic) for topic in topics)

    def plan_and_run(text: str) -> tuple[str, str]:
        return _plan_and_run(text, tmp_path)

    first = "topic {} has none of its rows, and first gets all rows of view ranks"
    assert plan_and_run(former) == ("new", first.format(topics[0]))
    assert plan_and_run(former) == ("nothing", "")
    upserts = 'format = "upsert-json"\n'
    verdict, why = plan_and_run(former + upserts)
    assert (verdict, "with other settings (format" in why) == ("refused", True)
    assert plan_and_run(other + upserts) == ("nothing", first.format(topics[1]))
    verdict, why = plan_and_run(other.replace(".ranked", ".renamed"))
    assert (verdict, "has the records of ranked.ranks" in why) == ("refused", True)
    with Headwater.from_text(other.replace(f'{kafka.servers}"\ntopic', '127.0.0.1:9"\ntopic')) as headwater:
        found = planned(headwater)["ranked"]
    assert found.verdict is Verdict.NOTHING
    assert f"it is not known whether topic {topics[1]} can be continued: Kafka at 127.0.0.1:9" in found.details[0]


WIDE_PUBLISHED = (
    EVENTS
    + """\
schema = "id int, v int"
[pipelines.wide]
service = "wide_table"
key = ["id"]
[pipelines.wide.publish]
view = "completeness"
servers = "{servers}"
topic = "{topic}"
[pipelines.wide.topics.one]
source = "events"
columns = ["v"]
sequence = ["v"]
"""
)
WIDE_EDIT = """\
[pipelines.wide.topics.two]
source = "events"
select = { w = "v" }
sequence = ["v"]
"""


@pytest.mark.kafka
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("pipeline", ["ranked", "wide"])
def test_an_edited_view_that_is_published(kafka: KafkaBroker, tmp_path: Path, pipeline: str, *, stored: bool) -> None:
    """It is refused also if `materialize` is part of the edit: no table has the former rows."""
    topics = [f"{pipeline}-{number}-{uuid4().hex[:8]}" for number in (1, 2)]
    for topic in topics:
        kafka.create_topic(topic)
    text = WIDE_PUBLISHED if pipeline == "wide" else PUBLISHED.replace(".publish]", '.publish]\nview = "top"')
    view, more = ("completeness", WIDE_EDIT) if pipeline == "wide" else ("top", "")
    former, other = (text.format(folder=tmp_path, servers=kafka.servers, topic=topic) for topic in topics)
    assert _plan_and_run(former, tmp_path)[0] == "new"
    service = f'service = "{"wide_table" if pipeline == "wide" else "ranking"}"\n'
    edit = service + (f'materialize = ["{view}"]\n' if stored else "") + ("" if pipeline == "wide" else "top = 3\n")
    verdict, why = _plan_and_run((former + more).replace(service, edit), tmp_path)
    assert (verdict, f"settings of view '{view}' were edited" in why) == ("refused", True)
    verdict, why = _plan_and_run((other + more).replace(service, edit), tmp_path)
    assert f"first gets all rows of view {view} with the next epoch" in why
    assert committed(kafka, topics[1])
    assert _plan_and_run((other + more).replace(service, edit), tmp_path) == ("nothing", "")
