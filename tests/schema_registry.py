"""A stand-in for a schema registry: a small HTTP server on loopback that answers in Confluent's protocol."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from attrs import define, field
from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pb2 import FileDescriptorProto


@define(eq=False)
class SchemaRegistry:
    """What the server answers, bytes as they are; `asked` has the paths of all questions."""

    answers: dict[str, Any] = field(factory=dict)
    asked: list[str] = field(factory=list)
    auth: str | None = None
    url: str = ""

    def add(self, number: int, schema: Any, **more: Any) -> None:
        self.answers[f"/schemas/ids/{number}"] = {"schema": json.dumps(schema), **more}

    def message(self, number: int, record: Any, schema: Any = None) -> bytes:
        """A record in the wire format, written with a schema: that of the id, if no other is given."""
        written = schema or json.loads(self.answers[f"/schemas/ids/{number}"]["schema"])
        stream = io.BytesIO()
        schemaless_writer(stream, parse_schema(written), record)
        return b"\0" + number.to_bytes(4, "big") + stream.getvalue()

    def add_file(self, number: int, file: FileDescriptorProto, *references: tuple[str, str], **more: Any) -> None:
        """A schema of Protobuf; references are pairs of the name that is imported and its subject, in version 1."""
        self.answers[f"/schemas/ids/{number}?format=serialized"] = _serialized(file, *references) | more

    def add_subject(self, subject: str, file: FileDescriptorProto, *references: tuple[str, str]) -> None:
        """A schema of Protobuf that others refer to, as version 1 of its subject."""
        self.answers[f"/subjects/{subject}/versions/1?format=serialized"] = _serialized(file, *references)


def _serialized(file: FileDescriptorProto, *references: tuple[str, str]) -> dict[str, Any]:
    named = [{"name": name, "subject": subject, "version": 1} for name, subject in references]
    text = b64encode(file.SerializeToString()).decode()
    return {"schema": text, "schemaType": "PROTOBUF", "references": named}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A running registry without schemas."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            found = registry.answers.get(self.path)
            refused = registry.auth is not None and self.headers["Authorization"] != registry.auth
            self.send_response(401 if refused else 200 if found else 404)
            self.end_headers()
            absent = {"error_code": 40403, "message": "Schema not found"}
            self.wfile.write(found if isinstance(found, bytes) else json.dumps(found or absent).encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
