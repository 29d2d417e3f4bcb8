"""How a source is read is edited: tables go on where stored rows stand on their own, and stop where one is taken back."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater
from headwater.app.run.clock import SystemClock
from headwater.app.wiring.edits import Verdict, plan_edits
from headwater.domain.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

DEPLOYMENT = """
[backend]
name = "delta"
engine = "local"
path = "{folder}/lake"

[sources.log]
kind = "files"
path = "{folder}/in"
format = "maxwell-json"
schema = "id int, g string, due timestamp, at timestamp, seen timestamp"
key = ["id"]
tables = ['d\\.o']
metadata = {{ at = "commit_time" }}

[sources.lines]
kind = "files"
path = "{folder}/lines"
format = "csv"
schema = "op string, id int, g string, t timestamp"
row_kind = "op"
event_time = "t"

[sources.events]
kind = "files"
path = "{folder}/lines"
format = "csv"
schema = "id int, g string, t timestamp"
event_time = "t"

[pipelines.anywhere]
service = "ranking"
source = "log"
group = ["g"]
id = ["id"]
order_by = "due"

[pipelines.same]
service = "ranking"
source = "log"
group = ["g"]
id = ["id"]
order_by = "due"
repeats = "same-segment"

[pipelines.counts]
service = "retraction"
source = "log"
group = ["g"]
updated_at = "at"
measures = {{ n = "count(*)" }}

[pipelines.latest]
service = "retraction"
source = "log"
updated_at = "at"
measures = {{ last = "max(due)" }}

[pipelines.wide]
service = "wide_table"
key = ["id"]
[pipelines.wide.topics.by_due]
source = "log"
columns = ["g"]
sequence = ["due"]
[pipelines.wide.topics.by_commit]
source = "log"
columns = ["seen"]
sequence = ["at"]

[pipelines.totals]
service = "retraction"
source = "lines"
group = ["g"]
updated_at = "t"
measures = {{ n = "count(*)" }}

[pipelines.ticks]
service = "cumulate"
source = "events"
step = "1h"
measures = {{ n = "count(*)" }}

[pipelines.added]
service = "retraction"
source = "events"
updated_at = "t"
measures = {{ n = "count(*)" }}
"""
IN_ORDER = """
[sources.ordered_log]
kind = "files"
path = "{folder}/changes"
key = ["id"]
format = "debezium-json"
schema = "id int, v int, ts timestamp"
tables = ['s\\.a']
metadata = {{ ts = "commit_time" }}
event_time = "ts"
transactions = "ordered"

[pipelines.ordered]
service = "bulk_merge"
key = ["id"]
columns = ["v"]
changelog = "ordered_log"
bulk = {{ path = "{folder}/bulk", format = "json", search_ts = "2024-01-01T00:00:00Z" }}
"""
DEPLOYMENT += IN_ORDER + IN_ORDER.replace("ordered", "counted")
ZONE = "\ntime_zone = 'Asia/Tokyo'"
AFTER_KEY, AFTER_LINES, AFTER_EVENTS = (
    'key = ["id"]\ntables',
    'row_kind = "op"',
    'schema = "id int, g string, t timestamp"',
)
LATER_KEY = f'key = ["id"]{ZONE}\ntables'
PLAIN_FORMAT = f'format = "csv"\n{AFTER_EVENTS}'
CHANGE_FORMAT = f'format = "maxwell-json"\nkey = ["id"]\n{AFTER_EVENTS}'
STAYS = "rows that are stored stay as they were read"
FOUND_BY = '(repeats = "same-segment" finds stored rows by these; "anywhere" does not)'
EDITS = [
    ("anywhere", AFTER_KEY, LATER_KEY, Verdict.NOTHING, f"time_zone UTC -> Asia/Tokyo: {STAYS}"),
    ("same", AFTER_KEY, LATER_KEY, Verdict.REBUILD, f"settings of its source: time_zone UTC -> Asia/Tokyo {FOUND_BY};"),
    ("counts", AFTER_KEY, LATER_KEY, Verdict.NOTHING, f"time_zone UTC -> Asia/Tokyo: {STAYS}"),
    ("latest", AFTER_KEY, LATER_KEY, Verdict.REBUILD, "settings of its source: time_zone UTC -> Asia/Tokyo;"),
    ("wide", AFTER_KEY, LATER_KEY, Verdict.REBUILD, "other time_zone of topic by_due UTC -> Asia/Tokyo;"),
    ("anywhere", "'d\\.o'", "'d\\..*'", Verdict.NOTHING, "what was skipped is not read again"),
    ("counts", "'d\\.o'", "'d\\..*'", Verdict.NOTHING, "tables d\\.o -> d\\..*"),
    ("wide", "'d\\.o'", "'d\\..*'", Verdict.NOTHING, "tables of topic by_commit d\\.o -> d\\..*"),
    ("latest", 'at = "commit_time"', 'at = "commit_time", seen = "commit_time"', Verdict.NOTHING, "metadata at = commit_time ->"),
    ("latest", 'at = "commit_time"', 'at = "commit_time", due = "commit_time"', Verdict.REBUILD, "metadata at = commit_time ->"),
    ("totals", AFTER_LINES, f"{AFTER_LINES}{ZONE}", Verdict.REBUILD, "time_zone UTC -> Asia/Tokyo"),
    ("totals", AFTER_LINES, f"{AFTER_LINES}\nnull_value = ['', '-']", Verdict.REBUILD, "null_value '' -> '', '-'"),
    ("totals", AFTER_LINES, "", Verdict.REBUILD, "row_kind op -> none"),
    ("ticks", AFTER_EVENTS, f"{AFTER_EVENTS}{ZONE}", Verdict.NOTHING, STAYS),
    ("ticks", AFTER_EVENTS, f"{AFTER_EVENTS}\nnull_value = ['', '-']", Verdict.NOTHING, "null_value '' -> '', '-'"),
    ("ticks", AFTER_EVENTS, 'schema = "op string, id int, g string, t timestamp"\nrow_kind = "op"', Verdict.REBUILD, "row_kind none -> op"),
    ("ticks", PLAIN_FORMAT, CHANGE_FORMAT, Verdict.REBUILD, "settings of its source: changes (by format or row_kind) no -> yes;"),
    ("added", PLAIN_FORMAT, CHANGE_FORMAT, Verdict.REBUILD, "settings of its source: changes (by format or row_kind) no -> yes;"),
    ("ordered", 'transactions = "ordered"', 'transactions = "counted"', Verdict.REBUILD, "other settings: transactions ordered -> counted;"),
    ("ordered", 'transactions = "ordered"', 'transactions = "none"', Verdict.REBUILD, "other settings: transactions ordered -> none;"),
    ("counted", 'transactions = "counted"', 'transactions = "ordered"', Verdict.REMOVED, "table counted.applied is no longer written"),
    ("counted", 'transactions = "counted"', 'transactions = "none"', Verdict.REBUILD, "other settings: transactions counted -> none;"),
]  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a deployment that has run."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "in").mkdir()
    (folder / "lines").mkdir()
    row = {"id": 1, "g": "a", "due": "2024-03-05 03:00:00", "seen": "2024-03-01 10:00:00"}
    message = {"database": "d", "table": "o", "type": "insert", "ts": 1709251200, "commit": True, "data": row}
    (folder / "in" / "1.json").write_text(json.dumps(message))
    (folder / "changes").mkdir()
    (folder / "bulk").mkdir()
    source = {"connector": "mysql", "db": "s", "table": "a", "ts_ms": 1709254800000, "txId": 1}
    order = {"id": "1", "total_order": 1, "data_collection_order": 1}
    change = {"op": "c", "before": None, "after": {"id": 1, "v": 1}, "source": source, "transaction": order}
    counts = [{"data_collection": "s.a", "event_count": 1}]
    end = {"status": "END", "id": "1", "event_count": 1, "data_collections": counts, "ts_ms": 1709254800000}
    (folder / "changes" / "1.json").write_text("\n".join(map(json.dumps, (change, end))))
    (folder / "lines" / "1.csv").write_text("op,id,g,t\n+I,1,a,2024-03-01 10:00:00\n")
    with Headwater.from_text(DEPLOYMENT.format(folder=folder)) as headwater:
        headwater.run(until_idle=True)
    return folder


def planned(headwater: Headwater, pipeline: str) -> tuple[Verdict, str]:
    edits = plan_edits(headwater.deployment, headwater.services, SystemClock())
    assert edits is not None
    return next((each.verdict, "; ".join(each.details)) for each in edits if each.name == pipeline)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit[0]}: {edit[4]}")
def test_the_plan_and_the_run_agree(built: Path, tmp_path: Path, edit: tuple[Any, ...]) -> None:
    pipeline, old, new, verdict, why = edit
    assert DEPLOYMENT.count(old) == 1
    shutil.copytree(built / "lake", tmp_path / "lake")
    text = DEPLOYMENT.replace(old, new).format(folder=built).replace(f"{built}/lake", f"{tmp_path}/lake")
    with Headwater.from_text(text) as headwater:
        found, details = planned(headwater, pipeline)
        assert (found, why in details) == (verdict, True), details
        if verdict is Verdict.REBUILD:
            with pytest.raises(ConfigError) as refused:
                headwater.run([pipeline], until_idle=True)
            assert str(refused.value) == details
        else:
            headwater.run([pipeline], until_idle=True)


def test_what_is_not_edited_is_not_mentioned(built: Path) -> None:
    with Headwater.from_text(DEPLOYMENT.format(folder=built)) as headwater:
        assert {planned(headwater, each) for each in headwater.services} == {(Verdict.NOTHING, "")}


SAME_SEGMENT = (
    'order_by = "due"\n\n[pipelines.same]',
    'order_by = "due"\nrepeats = "same-segment"\n\n[pipelines.same]',
)
IN_ZONE, COMMIT_TIME = (AFTER_KEY, LATER_KEY), ('at = "commit_time"', 'at = "commit_time", due = "commit_time"')
OTHER_COLUMN = ('at = "commit_time"', 'at = "commit_time", seen = "commit_time"')
MOVES = [
    ([[SAME_SEGMENT]], None),
    ([[SAME_SEGMENT, OTHER_COLUMN]], None),
    ([[SAME_SEGMENT], []], None),
    ([[IN_ZONE], []], None),
    ([[SAME_SEGMENT, IN_ZONE]], "time_zone UTC -> Asia/Tokyo"),
    ([[SAME_SEGMENT, COMMIT_TIME]], "metadata none -> due = commit_time"),
    ([[IN_ZONE], [IN_ZONE, SAME_SEGMENT]], "time_zone UTC, later Asia/Tokyo -> Asia/Tokyo"),
    ([[IN_ZONE], [], [SAME_SEGMENT]], "time_zone UTC, later Asia/Tokyo -> UTC"),
    ([[SAME_SEGMENT], [IN_ZONE], [IN_ZONE], [IN_ZONE, SAME_SEGMENT]], "time_zone UTC, later Asia/Tokyo -> Asia/Tokyo"),
]  # fmt: skip


@pytest.mark.parametrize(("moves", "why"), MOVES, ids=lambda each: str(each) if isinstance(each, str) else "")
def test_a_ranking_finds_rows_in_their_segment_only_if_all_were_read_alike(
    built: Path, tmp_path: Path, moves: list[list[tuple[str, str]]], why: str | None
) -> None:
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    for number, edits in enumerate(moves):
        text = DEPLOYMENT
        for old, new in edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        row = {"id": 2 + number, "g": "a", "due": "2024-03-05 03:00:00", "seen": "2024-03-01 10:00:00"}
        message = {"database": "d", "table": "o", "type": "insert", "ts": 1709251201, "commit": True, "data": row}
        (tmp_path / "in" / f"{2 + number}.json").write_text(json.dumps(message))
        with Headwater.from_text(text.format(folder=tmp_path)) as headwater:
            if why is None or number < len(moves) - 1:
                assert planned(headwater, "anywhere")[0] is Verdict.NOTHING
                headwater.run(["anywhere"], until_idle=True)
                continue
            verdict, details = planned(headwater, "anywhere")
            assert verdict is Verdict.REBUILD
            assert f"other settings of its source: {why} {FOUND_BY};" in details
            with pytest.raises(ConfigError) as refused:
                headwater.run(["anywhere"], until_idle=True)
            assert str(refused.value) == details
