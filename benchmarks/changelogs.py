"""Updates of orders as Maxwell, Debezium and Canal messages, and their decoding with Spark's own functions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.domain.source.changelog.settings import CANAL, DEBEZIUM, MAXWELL
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable

DDL = "order_id bigint, user_id bigint, state string, amount decimal(18,2), mtime timestamp"
SCHEMA = Schema.parse(DDL)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_OLD_TIME = f"{_START:%Y-%m-%d %H:%M:%S}"
_OLD_MILLIS = 1000 * int(_START.timestamp())
_TYPES = dict(zip(SCHEMA.names, ("bigint", "bigint", "varchar(20)", "decimal(18,2)", "datetime"), strict=True))


def _order(number: int) -> dict[str, Any]:
    mtime = _START + timedelta(seconds=number)
    amount = f"{number % 100_000 / 4:.2f}"
    values = (number, number % 9_973, "paid", amount, f"{mtime:%Y-%m-%d %H:%M:%S}")
    return dict(zip(SCHEMA.names, values, strict=True))


def _maxwell(number: int) -> bytes:
    order = _order(number)
    data = order | {"amount": float(order["amount"])}
    head = {"database": "shop", "table": "orders", "type": "update", "ts": 1_767_225_600 + number, "xid": number}
    return json.dumps(head | {"commit": True, "data": data, "old": {"state": "new", "mtime": _OLD_TIME}}).encode()


def _debezium(number: int) -> bytes:
    after = _order(number) | {"mtime": _OLD_MILLIS + number * 1000}
    connector = {"version": "2.7.3.Final", "connector": "mysql", "name": "shop", "ts_ms": _OLD_MILLIS + number}
    table = {"snapshot": "false", "db": "shop", "sequence": None, "table": "orders", "server_id": 1, "gtid": None}
    log = {"file": "mysql-bin.000003", "pos": number, "row": 0, "thread": 7, "query": None}
    images = {"before": after | {"state": "new", "mtime": _OLD_MILLIS}, "after": after}
    rest = {"op": "u", "ts_ms": _OLD_MILLIS + number, "transaction": None}
    return json.dumps(images | {"source": connector | table | log} | rest).encode()


def _canal(number: int) -> bytes:
    head = {"data": [{name: str(value) for name, value in _order(number).items()}], "database": "shop", "id": number}
    times = {"es": _OLD_MILLIS + number, "isDdl": False, "mysqlType": _TYPES, "pkNames": ["order_id"], "sql": ""}
    rest = {"sqlType": dict.fromkeys(_TYPES, 12), "table": "orders", "ts": _OLD_MILLIS + number, "type": "UPDATE"}
    return json.dumps(head | times | {"old": [{"state": "new", "mtime": _OLD_TIME}]} | rest).encode()


WRITERS: dict[str, Callable[[int], bytes]] = {MAXWELL: _maxwell, DEBEZIUM: _debezium, CANAL: _canal}


def from_json(messages: Any, format_: str) -> Any:
    """The rows of a frame's messages, `kind` and the columns.

    Old values are maps, because only a map distinguishes a column that was null from one that did not change.
    """
    parsed_as, images = _IN_SPARK[format_]
    parsed = messages.selectExpr(f"from_json(cast(value AS string), '{parsed_as}') AS m").selectExpr("m.*")
    if format_ == CANAL:
        parsed = parsed.selectExpr("explode(arrays_zip(data, old)) AS r").selectExpr("r.*")
    return parsed.selectExpr(f"inline(array({images}))")


def _updates(new: Callable[[str], str]) -> str:
    def before(name: str) -> str:
        return f"if(map_contains_key(old, '{name}'), old['{name}'], {new(name)})"

    return f"{_image('-U', before)}, {_image('+U', new)}"


def _image(kind: str, value: Callable[[str], str]) -> str:
    typed = ", ".join(f"'{each.name}', cast({value(each.name)} AS {each.type.ddl})" for each in SCHEMA.columns)
    return f"named_struct('kind', '{kind}', {typed})"


def _column(side: str) -> Callable[[str], str]:
    return lambda name: f"timestamp_millis({side}.mtime)" if name == "mtime" else f"{side}.{name}"


_STRINGS = ", ".join(f"{name}: string" for name in SCHEMA.names)
_NUMBERS = "order_id: bigint, user_id: bigint, state: string, amount: string, mtime: bigint"
_IN_SPARK = {
    MAXWELL: (f"data struct<{_STRINGS}>, old map<string, string>", _updates(lambda name: f"data.{name}")),
    DEBEZIUM: (
        f"before struct<{_NUMBERS}>, after struct<{_NUMBERS}>",
        f"{_image('-U', _column('before'))}, {_image('+U', _column('after'))}",
    ),
    CANAL: (
        "data array<map<string, string>>, old array<map<string, string>>",
        _updates(lambda name: f"data['{name}']"),
    ),
}
