"""Hudi's clock: it names instants by the time of their creation, never twice or out of order within one JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ...domain.errors import StoreUnavailable
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = timedelta(seconds=5)
"""An instant that is further ahead of the clock is not waited for."""
_SECOND_DIGITS = 14


def name_instants_in_utc(session: SparkSession) -> None:
    """Let Hudi name instants in UTC from now on.

    Hudi keeps the zone for the whole JVM. Its DataFrame writer sets it to that of the table. Its client does not set
    it, and would name plans and rollbacks in the zone of the machine or of another table.

    Raises:
        StoreUnavailable: this JVM has named an instant far ahead of the clock, because it wrote another table in local
            time. Hudi would wait until the clock is there.
    """
    generator = java_class(session, "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator")
    generator.setCommitTimeZone(java_class(session, "org.apache.hudi.common.model.HoodieTimelineTimeZone").UTC)
    last = str(generator.getLastInstantTime())
    ahead = moment(last) - datetime.now(UTC) if last.isdecimal() else timedelta()  # a negative number before the first
    if ahead > PATIENCE:
        raise StoreUnavailable(
            f"this process has named the Hudi instant {last}, {ahead} ahead of the clock (UTC). Set the clock"
            " right; if the program writes Hudi tables of its own, set hoodie.table.timeline.timezone = UTC for them,"
            " and start it again"
        )


def moment(instant: str) -> datetime:
    """The time at which an instant was requested (UTC, to the millisecond), parsed from its name."""
    second = datetime.strptime(instant[:_SECOND_DIGITS], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return second.replace(microsecond=1000 * int(instant[_SECOND_DIGITS:]))
