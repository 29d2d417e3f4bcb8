"""Runs every scenario on every backend."""

import pytest
from pytest_bdd import scenarios

pytestmark = pytest.mark.scenario

scenarios(".")
