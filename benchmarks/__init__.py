"""Benchmarks. Compare numbers within one run only; absolute times depend on the machine."""
