"""Tests of Kafka's client need the extra `kafka`; those of its records do not."""

from importlib.util import find_spec

_OF_CLIENT = [
    "test_broker.py",
    "test_clients.py",
    "test_errors.py",
    "test_reading.py",
    "test_sink.py",
    "test_source.py",
    "test_topics.py",
]
collect_ignore = [] if find_spec("confluent_kafka") else _OF_CLIENT
