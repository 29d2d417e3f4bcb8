"""Loads what all tests share; Spark is started by the first test that asks for it, if any."""

import pytest
from hypothesis import HealthCheck, settings

# Asserts in the contract suite are the package's, and should explain themselves all the same.
pytest.register_assert_rewrite("headwater.testing")

pytest_plugins = [
    "headwater.testing.steps",
    "tests.durations",
    "tests.example_fixtures",
    "tests.fault_table",
    "tests.jdbc_databases",
    "tests.kafka_fixtures",
    "tests.spark_fixtures",
]

# Speed is measured in benchmarks/: a busy machine fails no test.
settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("headwater"), max_examples=10)
settings.load_profile("headwater")
