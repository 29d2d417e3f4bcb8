"""What is said when Spark's JVM has ended."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError

from headwater.adapters.spark import lost_jvm
from headwater.domain.errors import EngineLost


def test_a_heap_that_is_too_small_and_a_machine_without_memory_have_opposite_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_jvm, "_has_ended", lambda: True)
    heap = "`OutOfMemoryError: Java heap space`, its heap was too small: raise spark.driver.memory"
    machine = "if the machine ran out of memory, .*: lower spark.driver.memory"
    with pytest.raises(EngineLost, match=rf"{heap} .* {machine}"), lost_jvm.explain_lost_jvm():
        raise Py4JNetworkError("Answer from Java side is empty")
