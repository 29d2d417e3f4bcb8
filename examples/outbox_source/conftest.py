"""The contract's asserts explain themselves."""

import pytest

pytest.register_assert_rewrite("headwater.testing")
