"""Steps for the specification; their asserts explain themselves."""

import pytest

pytest.register_assert_rewrite("headwater.testing")
