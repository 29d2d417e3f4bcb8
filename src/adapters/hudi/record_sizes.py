"""How Hudi estimates what its records take in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SKIPS_AGENT = "jol.skipHotspotSAAttach"


def estimate_within_process(session: SparkSession) -> None:
    """Keep Hudi's estimates within the driver's process.

    Hudi asks the library JOL how large a record is, to know when to write records to disk. JOL starts three more JVMs
    to ask this one about itself, which Java 17 does not allow: with the first commit, two to four seconds of processor
    time for nothing. What the program has set stays.
    """
    system = java_class(session, "java.lang.System")
    if system.getProperty(_SKIPS_AGENT) is None:
        system.setProperty(_SKIPS_AGENT, "true")
