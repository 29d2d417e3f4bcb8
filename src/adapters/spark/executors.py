"""The first executor of a cluster: waited for, and if none comes, why."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

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
_DEPLOY = "org.apache.spark.deploy"
_DYNAMIC = "spark.dynamicAllocation.enabled"


def follow_cores(session: SparkSession) -> str | None:
    """How many tasks a shuffle of many rows is to make: one for each core; None if Spark is to choose.

    Where executors come and go by demand, cores that are there tell nothing of those that will be.
    """
    context = session.sparkContext
    if context.getConf().get(_DYNAMIC, "false") == "true":
        return None
    return str(context.defaultParallelism)


def wait_for_executors(session: SparkSession) -> None:
    """Return when an executor has run a task; at once with a local master.

    Raises:
        ClusterUnavailable: none has come within a minute, or ``spark.scheduler.maxRegisteredResourcesWaitingTime`` if
            that is longer; the message says why.
    """
    context = session.sparkContext
    if is_local(master_of(context)):
        return
    java_context = context._jsc
    patience = max(_AT_LEAST, java_context.sc().conf().getTimeAsSeconds(_PATIENCE, "60s"))
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
    conf = session.sparkContext.getConf()
    try:
        states = [_state(session, host, port) for host, port in addresses(master_of(session.sparkContext))]
    except (Py4JError, PySparkException):  # of several masters one may be down, or a network cut
        states = []
    for state in states:
        return _told_by(state, session.sparkContext)
    return f"an executor asks for {_asked_for(conf)}; see whether the cluster has as much free. {_advice(conf)}"


def _asked_for(conf: SparkConf) -> str:
    memory, cores = conf.get("spark.executor.memory", "1g"), conf.get("spark.executor.cores", "1")
    return f"{cores} core{'s' if cores != '1' else ''} (spark.executor.cores) and {memory} (spark.executor.memory)"


def _advice(conf: SparkConf) -> str:
    address = f"{conf.get(DRIVER_HOST)}:{conf.get('spark.driver.port')}"
    return f"Executors must reach the driver at {address} ({DRIVER_HOST}); their logs say what they met"


def _state(session: SparkSession, host: str, port: int) -> Any:
    """What a standalone master knows of its workers and applications."""
    master = (
        java_class(session, "org.apache.spark.SparkEnv")
        .get()
        .rpcEnv()
        .setupEndpointRef(java_class(session, "org.apache.spark.rpc.RpcAddress")(host, port), "Master")
    )
    question = _singleton(session, f"{_DEPLOY}.DeployMessages$RequestMasterState$")
    return master.askSync(question, _singleton(session, "scala.reflect.ClassTag$").Any())


def _singleton(session: SparkSession, name: str) -> Any:
    return getattr(java_class(session, name), "MODULE$")


def _told_by(state: Any, context: SparkContext) -> str:
    conf = context.getConf()
    workers = [worker for worker in state.workers() if worker.isAlive()]
    if not workers:
        return "the master has no worker that is alive; start workers, with the master's address"
    apps = [*state.activeApps(), *state.completedApps()]
    started = [app for app in apps if app.id() == context.applicationId]
    failed = sum(app.removedExecutors().size() for app in started)
    running = sum(app.executors().size() for app in started)
    if failed or running:
        where = f"work/{context.applicationId}/*/stderr of the workers"
        return f"{failed} executors ended again, {running} have not answered yet. {_advice(conf)}: {where}"
    free = ", ".join(f"{each.host()}: {each.coresFree()} cores and {each.memoryFree()} MiB" for each in workers)
    others = ", ".join(app.desc().name() for app in state.activeApps() if app not in started)
    rest = f"; other applications hold the rest: {others}" if others else ""
    return f"an executor asks for {_asked_for(conf)}, and no worker has as much left ({free}){rest}"
