"""Which query engine a deployment gets."""

import pytest

from headwater.adapters.memory.queries import DuckQueries
from headwater.app.backends import Gap, Part
from headwater.app.clock import SystemClock
from headwater.app.config import load_text
from headwater.app.container import Container, MemoryBackend
