"""The Python API."""

from .headwater import Headwater

__all__ = ["Headwater"]
