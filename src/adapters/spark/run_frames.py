"""Frames made of the rows of a plan that has run, without the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .jvm import each_of, java_class, option, sequence
from .schema import frame_of_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADAPTIVE = "AdaptiveSparkPlan"
_BY_HASH = ("HashPartitioning", "CoalescedHashPartitioning")
_OF_BOTH_SIDES = "PartitioningCollection"


def frame_of_run(session: SparkSession, execution: Any) -> DataFrame:
    """The rows of a planned execution of any session, as a frame of this one with a plan of nothing else."""
    run = execution.toRdd()  # adaptive planning is done after this
    output, partitioning = _distributed(session, execution)
    rows = java_class(session, "org.apache.spark.sql.execution.LogicalRDD")(
        output,
        run,
        partitioning,
        sequence(session, ()),  # no ordering: it may be by columns that the plan does not have
        False,  # not a stream
        session._jsparkSession,
        option(session, execution.optimizedPlan().stats()),
        option(session),
    )
    return frame_of_plan(session, rows)


def _distributed(session: SparkSession, execution: Any) -> tuple[Any, Any]:
    """The columns of an execution that has run, and how its rows are distributed.

    Spark does not distribute rows by their key that are so already. An adaptive plan hides that they are. What a plan
    says of its rows is in terms of its own columns; those of the query have other ids, which may belong to another
    frame in a join. So the columns are the plan's, with the names of the query's.
    """
    plan, columns = execution.executedPlan(), execution.analyzed().output()
    adaptive = plan.nodeName() == _ADAPTIVE
    last = plan.executedPlan() if adaptive else plan
    found = last.outputPartitioning()
    if not adaptive and found.numPartitions() == 1:
        return columns, found
    for each in each_of(found.partitionings()) if _kind(found) == _OF_BOTH_SIDES else [found]:
        if _kind(each) in _BY_HASH and each.references().subsetOf(last.outputSet()):
            pairs = zip(each_of(last.output()), each_of(columns), strict=True)
            return sequence(session, (mine.withName(shown.name()) for mine, shown in pairs)), each
    # Many rows in one partition, as a task has read them from a file, are worth distributing.
    unknown = java_class(session, "org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning")
    return columns, unknown(found.numPartitions())


def _kind(partitioning: Any) -> str:
    name: str = partitioning.getClass().getSimpleName()
    return name
