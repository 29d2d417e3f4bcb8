"""Kafka topics as a stream."""
