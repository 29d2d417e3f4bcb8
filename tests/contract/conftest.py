"""What is collected: without Spark, only the modules that need none."""

from importlib.util import find_spec

NEED_SPARK = [
    "test_delta.py",
    "test_delta_engines.py",
    "test_hudi.py",
    "test_hudi_clock.py",
    "test_hudi_columns.py",
    "test_hudi_expiring.py",
    "test_hudi_local.py",
    "test_hudi_worlds.py",
]
collect_ignore = [] if find_spec("pyspark") else NEED_SPARK
