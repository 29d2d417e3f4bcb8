"""A real Kafka broker for tests: one process on loopback, run from Maven jars, without a container."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from attrs import define, field
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ..adapters.spark.java import java_home
from ..domain.errors import NotInstalled, SourceUnavailable

KAFKA_VERSION = "4.1.1"
_SCALA = "2.13"
_PORTS = range(15_000, 32_000)  # below Linux's range of ephemeral client ports
_LOOPBACK = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_SECONDS = 20.0
_ANY_PARTITION = -1
_MOST_WAITING = 50_000
"""Records that wait in a producer, which has room for 100,000."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=200
"""


def _free_port() -> int:
    """A loopback port that is free now, outside the range from which the system takes ports for clients."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_LOOPBACK, port))
            return port
    raise SourceUnavailable(f"no port of {_PORTS.start} to {_PORTS.stop} is free for a broker")


@define(eq=False)
class KafkaBroker:
    """A broker that can be stopped and started again. Its data stays until `kafka_broker` ends.

    Args:
        home: an empty directory for its data, settings and log.
        jars: the directory of Kafka's jars.
    """

    home: Path
    jars: Path
    _port: int = field(init=False, factory=_free_port)
    _controller_port: int = field(init=False, factory=_free_port)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    @property
    def servers(self) -> str:
        """The address for clients: ``host:port``."""
        return f"{_LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start the broker and wait until it answers.

        Raises:
            SourceUnavailable: it does not answer within 60 seconds; the message shows the end of its log.
        """
        if not self._properties.exists():
            self._format()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._java("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                    "kafka.Kafka",
                    str(self._properties),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.home,
            )
        self._await_answer()

    def stop(self) -> None:
        """Stop the broker; clients lose their connections immediately."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def create_topic(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; keyword arguments are its settings, with ``_`` instead of ``.``."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        admin = self.admin()  # the name keeps the client alive: without it, its requests are cancelled
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(_SECONDS)

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        partition: int | None = None,
        key: str | bytes | None = None,
    ) -> None:
        """Write records and wait until the broker has acknowledged them.

        Args:
            topic: the topic.
            values: one value for each record; None is a tombstone.
            partition: the partition; if None, it is chosen by the key, or at random without a key.
            key: the key of all records.

        Raises:
            SourceUnavailable: the broker does not take all records within 20 seconds.
        """
        produce(self.servers, topic, values, partition, key)

    def admin(self) -> AdminClient:
        """A client for other administration: adding partitions, deleting records, removing topics."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    @property
    def _log(self) -> Path:
        return self.home / "broker.log"

    def _java(self, *flags: str) -> list[str]:
        return [_java(), *flags, "-cp", f"{self.jars}/*"]

    def _format(self) -> None:
        properties = _PROPERTIES.format(
            host=_LOOPBACK, port=self._port, controller_port=self._controller_port, logs=self.home / "logs"
        )
        self._properties.write_text(properties)
        # The id begins with a letter, so that it is not taken for an option.
        cluster = "c" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:].rstrip("=")
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)]
        subprocess.run(command, check=True, capture_output=True, cwd=self.home)

    def _await_answer(self) -> None:
        deadline, admin = time.monotonic() + _START_SECONDS, self.admin()
        while time.monotonic() < deadline and self._process and self._process.poll() is None:
            try:
                admin.list_topics(timeout=1)
            except KafkaException:
                continue
            return
        self.stop()
        raise SourceUnavailable(f"the Kafka broker did not start; the end of its log:\n{self._log.read_text()[-2000:]}")


def produce(
    servers: str,
    topic: str,
    values: Iterable[str | bytes | None],
    partition: int | None = None,
    key: str | bytes | None = None,
) -> None:
    """Write records to any running broker; see `KafkaBroker.produce`.

    Raises:
        SourceUnavailable: the broker does not take all records within 20 seconds.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    to = _ANY_PARTITION if partition is None else partition
    for count, value in enumerate(values, 1):
        producer.produce(topic, value, key, to)
        producer.poll(0)
        if count % _MOST_WAITING == 0:
            producer.flush(_SECONDS)
    if left := producer.flush(_SECONDS):
        raise SourceUnavailable(f"{servers} did not take {left} records in {_SECONDS:g} s; is the broker running?")


@contextmanager
def kafka_broker() -> Iterator[KafkaBroker]:
    """A new running broker; when the block ends, it is stopped and its data deleted.

    Raises:
        NotInstalled: there is no Java 17, or the jars cannot be downloaded.
        SourceUnavailable: the broker does not start.
    """
    home = Path(tempfile.mkdtemp(prefix="headwater-kafka-"))
    broker = KafkaBroker(home, kafka_jars())
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)


def kafka_jars() -> Path:
    """The directory of Kafka's jars. The first call downloads 45 MB from Maven Central, with Spark's Ivy.

    Raises:
        NotInstalled: the jars cannot be downloaded; the message shows the end of Ivy's output.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    cache.mkdir(parents=True, exist_ok=True)
    jars = cache / f"kafka-{KAFKA_VERSION}"
    # Test processes start at the same time: one downloads, the others wait, and none sees an incomplete directory.
    with (cache / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (jars / f"kafka_{_SCALA}-{KAFKA_VERSION}.jar").exists():
            _fetch(jars)
    return jars


def _fetch(jars: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
        command = [
            *(_java(), "-cp", str(Path(pyspark.__file__).parent / "jars" / "*"), "org.apache.ivy.Main"),
            *("-dependency", "org.apache.kafka", f"kafka_{_SCALA}", KAFKA_VERSION, "-confs", "default"),
            *("-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
        if answer.returncode or not (Path(scratch) / "jars" / f"kafka_{_SCALA}-{KAFKA_VERSION}.jar").exists():
            raise NotInstalled(
                f"Kafka's jars cannot be downloaded; check the network. Ivy's output ends:\n{answer.stdout[-2000:]}"
            )
        shutil.rmtree(jars, ignore_errors=True)
        (Path(scratch) / "jars").rename(jars)


def _java() -> str:
    return str(Path(java_home()) / "bin" / "java")
