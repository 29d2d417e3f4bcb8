"""What is collected: nothing without Spark."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["test_*.py"]
