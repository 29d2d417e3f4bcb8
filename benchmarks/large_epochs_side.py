"""One work of `benchmarks.large_epochs`: before each epoch a plain append of the same rows.

python -m benchmarks.large_epochs_side WORK HEAP PLANS|- FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from headwater import Headwater

from .deployment import fresh
from .engines import WORK
from .floors import floor_of
from .memory import cpu_of_session
from .sides import GC_LOG

if TYPE_CHECKING:
    from collections.abc import Callable

_MIB = 2**20


@frozen
class Cost:
    """What some work on Spark took.

    Args:
        seconds: elapsed time.
        cpu: seconds of processor time of this process, the JVM and its Python workers.
        jobs, stages, tasks: their numbers; skipped stages do not count.
        task_seconds: seconds of processor time of the tasks, without Python workers.
        read, shuffled, spilled: MiB read from files and caches, written to shuffles, and spilled to disk.
    """

    seconds: float
    cpu: float
    jobs: int
    stages: int
    tasks: int
    task_seconds: float
    read: float
    shuffled: float
    spilled: float


@define(eq=False)
class Meter:
    """Measures what the session does, by Spark's status store.

    Args:
        session: the session.
    """

    session: Any
    _stages: int = field(init=False, default=0)
    _jobs: int = field(init=False, default=0)
    _queries: int = field(init=False, default=0)

    def cost(self, work: Callable[[], None]) -> Cost:
        """Do the work and return its cost."""
        self._mark()
        cpu, began = cpu_of_session(), perf_counter()
        work()
        seconds, cpu = perf_counter() - began, cpu_of_session() - cpu
        ran = [each for each in self._all_stages() if each.stageId() >= self._stages and each.numCompleteTasks() > 0]
        return Cost(
            seconds,
            cpu,
            jobs=self._newest_job() - self._jobs,
            stages=len(ran),
            tasks=sum(each.numCompleteTasks() for each in ran),
            task_seconds=sum(each.executorCpuTime() for each in ran) / 1e9,
            read=sum(each.inputBytes() for each in ran) / _MIB,
            shuffled=sum(each.shuffleWriteBytes() for each in ran) / _MIB,
            spilled=sum(each.diskBytesSpilled() for each in ran) / _MIB,
        )

    def plans(self) -> str:
        """The plans of the queries since the last work began."""
        queries = [each for each in _listed(self._sql.executionsList()) if each.executionId() >= self._queries]
        heads = (f"### query {each.executionId()}, jobs {each.jobs().keySet().mkString(' ')}" for each in queries)
        return "\n".join(f"{head}\n{each.physicalPlanDescription()}" for head, each in zip(heads, queries, strict=True))

    def _mark(self) -> None:
        self._jobs = self._newest_job()
        self._stages = max((each.stageId() for each in self._all_stages()), default=-1) + 1
        self._queries = max((each.executionId() for each in _listed(self._sql.executionsList())), default=-1) + 1

    def _newest_job(self) -> int:
        return max(self.session.sparkContext.statusTracker().getJobIdsForGroup(), default=-1) + 1

    def _all_stages(self) -> list[Any]:
        context, gateway = self.session.sparkContext._jsc.sc(), self.session.sparkContext._gateway
        context.listenerBus().waitUntilEmpty()
        nothing = gateway.new_array(gateway.jvm.double, 0)
        no_tasks = gateway.jvm.java.util.ArrayList()
        return _listed(context.statusStore().stageList(None, False, False, nothing, no_tasks))

    @property
    def _sql(self) -> Any:
        return self.session._jsparkSession.sharedState().statusStore()


def _listed(items: Any) -> list[Any]:
    return [items.apply(at) for at in range(items.size())]


def main() -> int:
    """Measure each epoch, write the costs, and the rows of the view at the end."""
    name, heap, plans, folder = *sys.argv[1:4], Path(sys.argv[4])
    home, work = folder / "home", WORK[name]
    spark = {
        "spark.master": "local[2]",
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={folder.resolve() / GC_LOG}",
    }
    config = fresh(home, "delta", upkeep="compact_every = 0", spark=spark, work=work.toml)
    costs = []
    with Headwater.from_config(config) as headwater:
        headwater.start()
        floor = floor_of("delta", home)
        meter = Meter(floor.session)
        for file in epoch_files(folder):
            plain = meter.cost(lambda at=file: floor.append(at))
            arrive(folder / "in", home / "in", file.stem)
            costs.append([asdict(plain), asdict(meter.cost(lambda: headwater.run(until_idle=True)))])
            print(costs[-1], flush=True)
            if plans != "-":
                (folder / plans).write_text(meter.plans())
            (folder / "costs.json").write_text(json.dumps(costs))
        headwater.view(work.view).write.parquet(str((folder / "found").resolve()))
    return 0


def epoch_files(folder: Path) -> list[Path]:
    """What arrives in each epoch, in order: a file of plain rows, or of the input where the work writes none."""
    rows = folder / "rows"
    return sorted((rows if rows.exists() else folder / "in").iterdir())


def arrive(source: Path, target: Path, stem: str) -> None:
    """Link the files of an epoch into the sources' folders."""
    for file in source.rglob(f"{stem}.*"):
        place = target / file.relative_to(source)
        place.parent.mkdir(exist_ok=True)
        os.link(file, place)


if __name__ == "__main__":
    sys.exit(main())
