"""Waits for the first executor of a cluster and explains why none comes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from attrs import frozen
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...domain.errors import ClusterUnavailable
from .jvm import java_class
from .master import addresses, is_local, master_of
from .start_settings import DRIVER_HOST

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

_PATIENCE = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_AT_LEAST = 60.0
_PAUSE = 0.1
_ANSWERS_WITHIN = 5.0
_DYNAMIC = "spark.dynamicAllocation.enabled"


@frozen
class _Resources:
    """The resources that an executor requests, or a worker has.

    Args:
        cores: the number of cores.
        memory: in mebibytes.
    """

    cores: int
    memory: int

    def __str__(self) -> str:
        return f"{self.cores} core{'s' if self.cores != 1 else ''} and {self.memory} MiB"

    def fits(self, offer: _Resources) -> bool:
        return self.cores <= offer.cores and self.memory <= offer.memory


def follow_cores(session: SparkSession) -> str | None:
    """The number of tasks for a shuffle of many rows: one per core; None if Spark is to choose.

    With dynamic allocation, the number of cores may change later.
    """
    context = session.sparkContext
    if context.getConf().get(_DYNAMIC, "false") == "true":
        return None
    return str(context.defaultParallelism)


def wait_for_executors(session: SparkSession) -> None:
    """Wait until an executor has run a task; return immediately with a local master.

    Raises:
        ClusterUnavailable: no executor has come within a minute, or
            ``spark.scheduler.maxRegisteredResourcesWaitingTime`` if that is longer; the message gives the reason.
    """
    context = session.sparkContext
    if is_local(master_of(context)):
        return
    java_context = context._jsc
    patience = max(_AT_LEAST, java_context.sc().conf().getTimeAsSeconds(_PATIENCE, "0s"))
    task = java_context.parallelize([0], 1).countAsync()
    end = monotonic() + patience
    while not task.isDone() and monotonic() < end:
        sleep(_PAUSE)
    if java_context.sc().isStopped():
        raise ClusterUnavailable(
            f"{master_of(context)} ended this application, as its executors failed again and again:"
            f" {_advice(context.getConf())}"
        )
    if not task.isDone():
        reason = _reason(session)
        task.cancel(True)
        raise ClusterUnavailable(
            f"no executor has come from {master_of(context)} within {patience:.0f} s, without which nothing is"
            f" computed: {reason}"
        )


def _reason(session: SparkSession) -> str:
    context = session.sparkContext
    conf = context._jsc.sc().conf()
    asked = _Resources(conf.getInt("spark.executor.cores", 1), conf.getSizeAsMb("spark.executor.memory", "1g"))
    for host, port in addresses(master_of(context)):
        with suppress(Py4JError, PySparkException, OSError, HTTPException, ValueError):  # one of several may be down
            return _reason_in(_state(session, host, port), asked, context)
    return f"an executor asks for {asked}; see whether the cluster has as much free. {_advice(context.getConf())}"


def _advice(conf: SparkConf) -> str:
    address = f"{conf.get(DRIVER_HOST)}:{conf.get('spark.driver.port')}"
    return f"Executors must reach the driver at {address} ({DRIVER_HOST}); their logs say what they met"


def _state(session: SparkSession, host: str, port: int) -> dict[str, Any]:
    """The workers and applications of a standalone master, from the JSON of its web page."""
    environment = java_class(session, "org.apache.spark.SparkEnv").get()
    address = java_class(session, "org.apache.spark.rpc.RpcAddress")(host, port)
    master = environment.rpcEnv().setupEndpointRef(address, "Master")
    # The RPC answer leaves out used resources, but has the port of the web page.
    question = _singleton(session, "org.apache.spark.deploy.master.MasterMessages$BoundPortsRequest$")
    page = master.askSync(question, _singleton(session, "scala.reflect.ClassTag$").Any()).webUIPort()
    connection = HTTPConnection(host, page, timeout=_ANSWERS_WITHIN)
    try:
        connection.request("GET", "/json/")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found
    finally:
        connection.close()


def _singleton(session: SparkSession, name: str) -> Any:
    return getattr(java_class(session, name), "MODULE$")


def _reason_in(state: Mapping[str, Any], asked: _Resources, context: SparkContext) -> str:
    free = {
        each["host"]: _Resources(each["coresfree"], each["memoryfree"])
        for each in state["workers"]
        if each["state"] == "ALIVE"
    }
    if not free:
        return "the master has no worker that is alive; start workers, with the master's address"
    ours = context.applicationId
    if any(asked.fits(each) for each in free.values()) or any(
        app["cores"] for app in state["activeapps"] if app["id"] == ours
    ):
        where = f"work/{ours}/*/stderr of the workers"
        return f"executors were started, and none has answered. {_advice(context.getConf())}: {where}"
    left = ", ".join(f"{host} has {each}" for host, each in free.items())
    others = ", ".join(app["name"] for app in state["activeapps"] if app["id"] != ours)
    rest = f"; other applications hold the rest: {others}" if others else ""
    return (
        f"an executor asks for {asked} (spark.executor.cores, spark.executor.memory), and no worker has as much left:"
        f" {left}{rest}"
    )
