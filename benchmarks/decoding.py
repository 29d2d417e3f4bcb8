"""Decoding of JSON records to typed rows: the strict decoder alone, and with learned shapes in front of it.

Rates are records per second of processor time, best of some runs. Learned shapes decode the messages as the local
engine takes them from Kafka's client, until they are a frame. Of odd records one value has an escape that shapes do not
cover. Each message is an update of an order, so it becomes two rows; a plain record becomes one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from time import process_time
from typing import TYPE_CHECKING

import polars as pl

from headwater.adapters.kafka.plan import Slice
from headwater.adapters.kafka.runs import Run, chunks
from headwater.adapters.records.decoder import ROWS_A_BATCH, RecordDecoder
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.domain.source.changelog.settings import DEBEZIUM, ChangeSpec
from headwater.domain.source.record_spec import RecordSpec

from .changelogs import SCHEMA, WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_HEAD = ("format", "bytes", "strict /cpu s", "shapes /cpu s", "1 % odd: strict", "1 % odd: shapes")
_TIMESTAMP = "io.debezium.time.Timestamp"
_CONNECT = {"bigint": "int64", "timestamp": "int64"}


def _plain(number: int) -> bytes:
    data = json.loads(WRITERS["maxwell-json"](number))["data"]
    return json.dumps(data).encode()


def _schema() -> str:
    """The schema that Kafka Connect writes into each message."""
    row = [
        {"type": _CONNECT.get(each.type.name, "string"), "optional": True, "field": each.name}
        | ({"name": _TIMESTAMP, "version": 1} if each.type.name == "timestamp" else {})
        for each in SCHEMA.columns
    ]
    images = [{"type": "struct", "fields": row, "optional": True, "field": side} for side in ("before", "after")]
    return json.dumps({"type": "struct", "fields": images, "optional": False, "name": "shop.orders.Envelope"})


def _in_envelope(number: int) -> bytes:
    return b'{"schema":%s,"payload":%s}' % (_schema().encode(), WRITERS[DEBEZIUM](number))


_KINDS: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "json": ("json", _plain),
    **{format_: (format_, write) for format_, write in WRITERS.items()},
    "debezium, schema": (DEBEZIUM, _in_envelope),
}


def _odd(number: int, raw: bytes) -> bytes:
    return raw.replace(b'"paid"', b'"p\\u0061id"') if number % 100 == 0 else raw


def _runs(texts: list[bytes]) -> Iterator[Run]:
    """Messages as the client hands them over."""
    whole = Slice(0, "orders", 0, 0, len(texts))
    for at in range(0, len(texts), ROWS_A_BATCH):
        part = texts[at : at + ROWS_A_BATCH]
        yield Run.of(whole, range(at, at + len(part)), part)


def _strictly(spec: RecordSpec, texts: list[bytes]) -> pl.DataFrame:
    return _frame(RecordDecoder(spec).batches(record for run in _runs(texts) for record in run.records()))


def _by_shapes(spec: RecordSpec, texts: list[bytes]) -> pl.DataFrame:
    return _frame(map(ShapeDecoder(spec, views=True).chunk, chunks(_runs(texts))))


def _frame(batches: Iterable[pa.RecordBatch]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in batches])


def _rate(
    decode: Callable[[RecordSpec, list[bytes]], pl.DataFrame], spec: RecordSpec, texts: list[bytes], times: int
) -> tuple[float, pl.DataFrame]:
    """Records per second of processor time, and their rows."""
    least, rows = float("inf"), pl.DataFrame()
    for _ in range(times):
        began = process_time()
        rows = decode(spec, texts)
        least = min(least, process_time() - began)
    return len(texts) / least, rows


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=4)
    arguments = parser.parse_args()
    print(f"{arguments.records:,} records, best of {arguments.runs}; load {os.getloadavg()[0]:.1f}")
    print("  ".join(each.rjust(16) for each in _HEAD))
    for name, (format_, write) in _KINDS.items():
        spec = RecordSpec(SCHEMA, format_, changes=ChangeSpec() if format_ == "json" else ChangeSpec(["shop.orders"]))
        raws = [write(number) for number in range(arguments.records)]
        cells = [name, str(len(raws[-1]))]
        for texts in (raws, [_odd(number, raw) for number, raw in enumerate(raws)]):
            strict, expected = _rate(_strictly, spec, texts, arguments.runs)
            shapes, rows = _rate(_by_shapes, spec, texts, arguments.runs)
            if not rows.equals(expected):
                raise SystemExit("the decoders make different rows")
            cells += [f"{strict:,.0f}", f"{shapes:,.0f}"]
        print("  ".join(each.rjust(16) for each in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
