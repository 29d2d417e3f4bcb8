"""The specifications of this project run over its own backend."""

import pytest

pytest_plugins = ["headwater.testing.steps"]


@pytest.fixture
def headwater_backend() -> str:
    return "parquet"
