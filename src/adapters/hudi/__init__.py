"""Versioned tables on Apache Hudi, merge-on-read and copy-on-write."""
