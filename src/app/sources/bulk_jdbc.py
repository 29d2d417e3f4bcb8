"""A table to load in bulk from a database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ...domain.ports import BulkSource
from ...domain.source.bulk import BulkSpec
from ..deployment.deployment import BulkJdbc
from ..document.section import Section
from ..document.value_types import OPTIONS, TEXT, Key
from ..registry.backends import Gap, Part
from ..registry.sources import BulkKind
from .bulk_files import CHUNKS, READ_BY_SPARK
from .secrets import check_secret, read_secret

NO_DATABASES = Gap(Part.DATABASES, READ_BY_SPARK)
_SECRET = re.compile("password|secret|token", re.IGNORECASE)


class BulkJdbcKind(BulkKind[BulkJdbc]):
    """A table ``bulk`` with the key ``jdbc``."""

    keys: ClassVar[Mapping[str, Key]] = {
        "jdbc": Key(TEXT, required=True),
        "table": Key(TEXT, required=True),
        "user": Key(TEXT),
        "password": Key(TEXT),
        "password_file": Key(TEXT),
        "clock_query": Key(TEXT),
        "position_query": Key(TEXT),
        "options": Key(OPTIONS, {}),
        **CHUNKS,
    }

    def parse(self, table: Section) -> BulkJdbc:
        for name in filter(_SECRET.search, table["options"]):
            check_secret(table, "options", name)
        given = {"user": table["user"], "password": read_secret(table, "password")}
        credentials = {name: value for name, value in given.items() if value is not None}
        own = {**table.fields(BulkJdbc), "options": {**table["options"], **credentials}}
        return table.build(lambda: BulkJdbc(**own))

    def open_polars(self, settings: BulkJdbc, spec: BulkSpec, backend: str) -> BulkSource:
        raise NO_DATABASES.error(backend)

    def open_spark(self, settings: BulkJdbc, spec: BulkSpec, session: Any, backend: str) -> BulkSource:
        from ...adapters.jdbc.bulk import JdbcBulk, TableSettings
        from ...adapters.jdbc.database import Database, JdbcSettings

        chunked = TableSettings(
            settings.table,
            settings.clock_query,
            settings.position_query,
            settings.chunk_rows,
            settings.chunks_per_epoch,
        )
        return JdbcBulk(Database(session, JdbcSettings(settings.jdbc, settings.options)), chunked, spec)
