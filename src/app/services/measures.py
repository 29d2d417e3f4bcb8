"""The measures of a pipeline: each is an SQL text, or a table with an SQL text and a condition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ...domain.service.measures import Measure
from ..deployment.deployment import SourceSettings
from ..document.section import Section
from ..document.value_types import TEXT, Key, named, one_text, or_table

_MEASURE = {
    "measure": Key(one_text("a measure such as 'sum(amount)'"), required=True),
    "where": Key(one_text("a condition such as 'amount > 0'")),
}
MEASURES = named(or_table(TEXT, _MEASURE))


def measures(table: Section, source: SourceSettings, *, estimates: bool = False) -> Iterator[Measure]:
    """Yield the measures of a pipeline.

    Raises:
        ConfigError: names file, line and key of the first text that is not a measure.
    """
    for name in table.names("measures"):
        at = ("measures", name)
        values = table.inner(_MEASURE, *at).values if table.is_table(*at) else {"measure": table.text(*at)}
        parse = partial(Measure.parse, name, values["measure"], values.get("where"), source.records.rows)
        yield table.build(partial(parse, estimates=estimates), *at)
