"""Changelogs: row kinds, as Flink and Paimon write them."""
