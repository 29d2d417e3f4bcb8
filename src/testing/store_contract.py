"""The contract of every table store. To test a backend, subclass `StoreContract` in a test module.

The subclass opens stores (`reopen`) and makes frames of the backend's engine (`frame`); see `StoreHarness`.
"""

from __future__ import annotations

from .store_committing import CommittingContract
from .store_history import ChangesContract, FencingContract, MarksContract, RollbackContract, UpkeepContract
from .store_keeping import ExpiringContract, LeasesContract
from .store_loading import LoadingContract
from .store_merging import MergingContract
from .store_nested import NestedContract
from .store_reading import EnsureContract, ReadingContract, ValuesContract
from .store_whole import WholeContract


class OperationsContract(
    EnsureContract,
    ReadingContract,
    CommittingContract,
    LoadingContract,
    MarksContract,
    FencingContract,
    RollbackContract,
    UpkeepContract,
    ExpiringContract,
    LeasesContract,
    ChangesContract,
):
    """Tests of all methods of `KeptStore`, on tables of plain values."""


class StoreContract(OperationsContract, ValuesContract, MergingContract, NestedContract, WholeContract):
    """Tests of all methods, of every kind of value and table, and of the merge rules."""
