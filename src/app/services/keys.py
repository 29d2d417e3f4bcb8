"""Keys that several services share."""

from __future__ import annotations

from ...domain.ledger.retention import Retention
from ...domain.service.feed import FEED_FORMATS
from ...domain.service.input import PlainTable
from ..deployment.deployment import KafkaOutput, PipelineSettings
from ..document.section import Section
from ..document.value_types import (
    DURATION,
    FLAG,
    OPTIONS,
    PATH,
    SERVERS,
    SOURCE,
    TEXT,
    TEXTS,
    TOPIC,
    Key,
    choice,
    keys_of,
    table_of,
    whole,
)

RETAIN = keys_of(Retention, versions=whole(1), duration=DURATION)
PUBLISH = keys_of(
    KafkaOutput,
    view=TEXT,
    servers=SERVERS,
    topic=TOPIC,
    format=choice(*FEED_FORMATS),
    row_kind=TEXT,
    tombstones=FLAG,
    rename=OPTIONS,
    options=OPTIONS,
)
ANY_PIPELINE = {
    "service": Key(TEXT, required=True),
    **keys_of(PipelineSettings, retain=table_of(RETAIN), expire_every=whole(0), epoch_takes=DURATION),
}
"""The keys of every pipeline."""
ANY_STREAM = ANY_PIPELINE | keys_of(PipelineSettings, materialize=TEXTS, publish=table_of(PUBLISH))
"""The keys of a pipeline whose views can be materialized and published."""
OF_ONE_SOURCE = ANY_STREAM | {"source": Key(SOURCE, required=True)}
"""The keys of such a pipeline that reads one source: `source` is its name."""
PLAIN_TABLE = {"path": Key(PATH, required=True), "format": Key(TEXT, "parquet")}
"""The keys of a table that other programs write; see `plain_table`."""


def plain_table(table: Section) -> PlainTable:
    """Return the table of `PLAIN_TABLE`."""
    return PlainTable(table.resolve_key("path"), table["format"])
