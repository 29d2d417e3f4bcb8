"""Every scenario, over every backend."""

from pytest_bdd import scenarios

scenarios(".")
