"""Configuration of cumulate windows: what is read, what is refused, and what the message says about it."""

from datetime import timedelta

import pytest

from headwater.app.services.texts import of_measures
from headwater.app.wiring.blueprints import blueprints
from headwater.domain.errors import ConfigError
from headwater.domain.table.fingerprint import digest

SAMPLE = """\
[backend]
name = "memory"

[sources.views]
kind = "files"
path = "in"
schema = "at timestamp, page string, country string, user_id bigint, amount decimal(9,2), score double, kind string"
event_time = "at"

[pipelines.page_views]          # view ticks: window_start, tick, grouping, dimensions, measures, revision
service = "cumulate"
source = "views"
step = "1m"
size = "1d"
time_zone = "Asia/Shanghai"
dimensions = [["page"], []]     # [] is the total; grouping is "page" or ""
measures = { pv = "count(*)", uv = "count(distinct user_id)" }
late = "drop"                   # drop | revise
ticks = "sparse"                # sparse | dense
"""


def changed(old, new, text=SAMPLE):
    assert text.count(old) == 1
    return text.replace(old, new)


def settings(deployment):
    return deployment.pipelines["page_views"].service


def test_the_sample_answers_ticks(deploy):
    deployment = deploy(SAMPLE)
    read = settings(deployment)
    assert (read.step, read.size, read.time_zone) == (timedelta(minutes=1), timedelta(days=1), "Asia/Shanghai")
    assert (read.dimensions, read.late, read.ticks, read.event_time) == ((("page",), ()), "drop", "sparse", "at")
    views = {view.name: (view.schema.names, view.key) for view in blueprints(deployment)["page_views"].views}
    assert list(views) == ["ticks", "revisions", "curve", "ticks_page", "ticks_total", "curve_page", "curve_total"]
    assert views["ticks"] == (("window_start", "tick", "grouping", "page", "pv", "uv", "revision"), ())
    assert views["ticks_total"] == (("window_start", "tick", "pv", "uv", "revision"), ("window_start", "tick"))
    assert views["curve"] == views["curve_page"] == (("window_start", "tick", "page", "pv", "uv"), ())


@pytest.mark.parametrize(("distinct", "compiled"), [("user_id", 0), ("User_ID", 0), ("cast(user_id as int)", 1)])
def test_a_measure_of_a_column_has_nothing_to_compile(deploy, distinct, compiled):
    read = settings(deploy(changed("count(distinct user_id)", f"count(distinct {distinct})")))
    assert len(list(of_measures(read.measures, read.schema))) == compiled


_RANKING = """
[pipelines.first_views]
service = "ranking"
source = "views"
group = ["page"]
id = ["user_id"]
order_by = "at"
"""


def test_an_idle_rule_is_for_cumulate_windows(deploy):
    idle = changed('event_time = "at"', 'event_time = "at"\nidle_after = "5m"')
    assert deploy(idle + _RANKING).sources["views"].idle_after == timedelta(minutes=5)
    ranked = idle[: idle.index("[pipelines.page_views]")] + _RANKING
    with pytest.raises(
        ConfigError, match=r"idle_after.*does nothing for first_views: only .*\"cumulate\".* leave it out"
    ):
        deploy(ranked)


def test_a_delay_needs_event_times_or_chunks_that_wait(deploy):
    text = changed('event_time = "at"', 'watermark_delay = "1m"')
    ranked = text[: text.index("[pipelines.page_views]")] + _RANKING
    with pytest.raises(
        ConfigError, match=r"deploy.toml:\d+: sources.views.watermark_delay: does nothing without event_time"
    ):
        deploy(ranked)
    deploy(changed('"1m"', '"0s"', ranked))


def test_what_may_be_left_out(deploy):
    text = SAMPLE
    for line in ('size = "1d"\n', 'time_zone = "Asia/Shanghai"\n'):
        text = changed(line, "", text)
    text = text[: text.index("dimensions = ")] + 'measures = { pv = "count(*)" }\n'
    deployment = deploy(text)
    read = settings(deployment)
    assert (read.size, read.offset, read.time_zone) == (timedelta(days=1), timedelta(), "UTC")
    assert (read.dimensions, read.late, read.ticks) == (((),), "drop", "sparse")
    assert (read.watermark_delay, read.retracts) == (timedelta(), False)
    assert deployment.sources["views"].idle_after is None
    views = {view.name: view.key for view in blueprints(deployment)["page_views"].views}
    assert views == {"ticks": ("window_start", "tick", "grouping"), "revisions": (), "curve": ()}


def test_every_key(deploy):
    text = changed(
        'event_time = "at"', 'event_time = "at"\nwatermark_delay = "30s"\nidle_after = "5m"\nrow_kind = "kind"'
    )
    text = changed('size = "1d"', 'size = "1d"\noffset = "4h"', text)
    text = changed('[["page"], []]', '[["page", "country"], ["page"], []]', text)
    text = changed('"drop" ', '"revise" ', text)
    text = changed('"sparse" ', '"dense" ', text)
    text = changed('pv = "count(*)"', 'pv = { measure = "count(*)", where = "amount > 1" }', text)
    deployment = deploy(text)
    read = settings(deployment)
    assert (read.offset, read.watermark_delay, read.retracts) == (timedelta(hours=4), timedelta(seconds=30), True)
    assert (read.late, read.ticks, read.dimension_schema.names) == ("revise", "dense", ("page", "country"))
    assert [each.condition for each in read.measures] == ["`amount` > 1", ""]
    assert deployment.sources["views"].idle_after == timedelta(minutes=5)
    names = [view.name for view in blueprints(deployment)["page_views"].views]
    assert "ticks_page_country" in names
    assert "curve_page_country" in names


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('step = "1m"\n', "", "pipelines.page_views.step: is missing; it is a duration"),
        ('step = "1m"', 'step = "7m"', r"size \(86400 s\) must be a multiple of step \(420 s\)"),
        ('step = "1m"', 'step = "0s"', "step must be longer than 0"),
        ('step = "1m"', 'step = "2d"', r"size \(86400 s\) must be a multiple of step \(172800 s\)"),
        (
            '[["page"], []]',
            '["page"]',
            r"pipelines.page_views.dimensions: \['page'\] is not a list of lists such as \[\[",
        ),
        (
            '[["page"], []]',
            '[["pag"], []]',
            "pipelines.page_views.dimensions: no such column: .*; did you mean 'page'?",
        ),
        ('[["page"], []]', '[["score"]]', "column 'score' is a double, by which rows cannot be counted exactly"),
        ('[["page"], []]', "[]", r"dimensions needs at least one set, such as \[\["),
        ('[["page"], []]', '[["page", "page"]]', "dimensions: 'page' is given twice; name it once"),
        ('[["page"], []]', '[["page", "country"], ["country", "page"]]', "dimensions: a set is listed twice"),
        (
            'uv = "count(',
            '"a b" = "count(',
            "17: pipelines.page_views.measures.\"a b\": a table is named after measure 'a b'",
        ),
        (
            '"count(distinct user_id)"',
            '"count(*)", "1/2" = "approx_count_distinct(user_id)"',
            "a table is named after measure '1/2', which needs",
        ),
        ('pv = "count(*)"', 'Page = "count(*)"', "Page, page: measures and dimensions need different names"),
        ('pv = "count(*)"', '_pv = "count(*)"', "column '_pv' is in the way: names that begin with '_' are taken"),
        ('pv = "count(*)"', 'pv = "sum(score)"', "page_views.measures.pv: 'sum.score.' is over a double"),
        ('{ pv = "count(*)", uv = "count(distinct user_id)" }', "{}", "measures needs at least one, such as"),
        ('late = "drop"', 'late = "keep"', "page_views.late: 'keep' is unknown; allowed: drop, revise"),
        ('ticks = "sparse"', 'ticks = "all"', "page_views.ticks: 'all' is unknown; allowed: sparse, dense"),
        (
            'event_time = "at"\n',
            "",
            "page_views.source: source 'views' needs an event_time: it decides the window of a row",
        ),
        ("at timestamp,", "at date,", "event_time 'at' must be a timestamp, not date"),
        (
            'event_time = "at"',
            'event_time = "at"\nrow_kind = "kind"',
            "measure 'uv' is an estimate, which cannot take retractions; write count",
        ),
        (
            'late = "drop"',
            'materialize = ["ticks"]\nlate = "drop"',
            "'ticks' is not a view .*: ticks_page, ticks_total",
        ),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(deploy, old, new, message):
    text = changed(old, new)
    if "estimate" in message:
        text = changed("count(distinct user_id)", "approx_count_distinct(user_id)", text)
    with pytest.raises(ConfigError, match=message):
        blueprints(deploy(text))


def test_updates_without_their_old_image_are_refused(deploy):
    text = changed('path = "in"', 'path = "in"\nformat = "debezium-json"\nbefore = "optional"')
    with pytest.raises(
        ConfigError, match=r'page_views.source: source .views. has before = "optional": an update without'
    ):
        deploy(text)


def test_a_set_that_has_the_name_of_the_total_is_refused(deploy):
    text = changed('[["page"], []]', '[["total"], []]', changed("page string", "total string"))
    with pytest.raises(
        ConfigError, match=r"dimensions: \[\] is called 'total' in the names of views, and so is \['total'\]; rename"
    ):
        deploy(text)


@pytest.mark.parametrize("mark", ["_", ","])
def test_two_sets_of_one_name_are_refused(deploy, mark):
    text = changed("page string", f"`page{mark}country` string, page string")
    text = changed('[["page"], []]', f'[["page", "country"], ["page{mark}country"]]', text)
    with pytest.raises(
        ConfigError, match=rf"two sets have the same name \(their columns joined by '{mark}'\); rename a column"
    ):
        deploy(text)


def test_what_the_rows_depend_on_changes_the_fingerprint_and_what_they_do_not_does_not(deploy):
    def fingerprint(old="", new=""):
        return digest(settings(deploy(changed(old, new) if old else SAMPLE)).fingerprint)

    first = fingerprint()
    for old, new in (
        ('step = "1m"', 'step = "2m"'),
        ('size = "1d"', 'size = "2d"'),
        ('size = "1d"', 'size = "1d"\noffset = "1h"'),
        ('"Asia/Shanghai"', '"UTC"'),
        ('[["page"], []]', '[["page"]]'),
        ('pv = "count(*)"', 'pv = "count(user_id)"'),
        ('"sparse" ', '"dense" '),
    ):
        assert fingerprint(old, new) != first, new
    for old, new in (
        ('"drop" ', '"revise" '),
        ('event_time = "at"', 'event_time = "at"\nwatermark_delay = "1h"\nidle_after = "1h"'),
        ('[["page"], []]', '[[], ["page"]]'),
    ):
        assert fingerprint(old, new) == first, new
