"""The specification of a deployment, over the Parquet backend."""

from pytest_bdd import scenarios

scenarios(".")
