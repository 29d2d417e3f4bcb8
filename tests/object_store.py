"""An object store for tests: moto's server, which speaks S3 over HTTP, in a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

import pytest
from attrs import define, field

Answer = Callable[["dict[str, Any]", Callable[..., Any]], Iterable[bytes]]
"""What answers a request, as WSGI has it."""


@define(eq=False)
class ObjectStore:
    """An object store that answers one request after the other, as one that keeps conditions of writes must.

    Args:
        address: where it listens.
        answer: what answers its requests; a test may put a faulty one in its place.
        asked: the method and the path of each request.
    """

    address: str
    answer: Answer
    asked: list[tuple[str, str]] = field(factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that uses it."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
        }

    def new_bucket(self) -> str:
        """The address of an empty bucket."""
        import boto3

        name = f"lake-{uuid4().hex}"
        found = self.environment
        boto3.client(
            "s3",
            endpoint_url=self.address,
            region_name=found["AWS_REGION"],
            aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        ).create_bucket(Bucket=name)
        return f"s3://{name}"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """An object store, for which the environment is set."""
    pytest.importorskip("obstore", reason="reaches object stores, and comes with headwater[s3]")
    pytest.importorskip("moto", reason="an object store, in the extra dev")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *args: Any) -> None:
            pass

    lock = Lock()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with lock:
            store.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            return list(store.answer(environ, start))

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
    store = ObjectStore(f"http://127.0.0.1:{server.server_port}", DomainDispatcherApplication(create_backend_app))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            yield store
    finally:
        server.shutdown()
        thread.join()
