"""Estimates of distinct counts: HyperLogLog, stored as rows.

The first digits of a value's hash select one of 4096 registers. A register keeps the longest run of leading zeros found
in the rest of a hash, plus one. The estimate needs two sums over all registers: 2^-run, and the number of registers in
use. Both are whole numbers (2^-run is scaled) that add up by pane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw

from ...table.schema import TIMES as MOMENTS
from ..measures import Measure
from .pane_state import PaneState
from .tables import REGISTER, RUN, sums_of
from .tick_range import TickRange

_DIGITS, _RUN_DIGITS = 3, 10  # of the hash: the digits that select the register, and those that the run is counted in
_REGISTERS = 16**_DIGITS
_LONGEST = 4 * _RUN_DIGITS
_ONE = 2**_LONGEST
_ALPHA = 0.7213 / (1 + 1.079 / _REGISTERS)
_SMALL = 2.5 * _REGISTERS
_LEADING = {3: ["1"], 2: ["2", "3"], 1: ["4", "5", "6", "7"]}
_TEXT, _HASH, _REST = "_text", "_hash", "_rest"


class Sketch(PaneState):
    """The registers of one measure, in all groups."""

    def extract(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the register and run of each row's value, in `REGISTER` and `RUN`."""
        chosen = rows.filter(self.measure.applies).with_columns(self.measure.over.alias(_TEXT))
        if self.measure.value_type.name in MOMENTS:  # engines format timestamps differently
            chosen = self.engine.wall_micros(chosen, _TEXT, into=_TEXT, zone="UTC")
        hashed = self.engine.digest(chosen, _TEXT, into=_HASH)
        rest = nw.col(_HASH).str.slice(_DIGITS, _RUN_DIGITS).str.replace_all("^0+", "")
        hashed = hashed.with_columns(nw.col(_HASH).str.slice(0, _DIGITS).alias(REGISTER), rest.alias(_REST))
        whole = (nw.lit(_RUN_DIGITS) - nw.col(_REST).str.len_chars()).cast(nw.Int64) * 4
        first, within = nw.col(_REST).str.slice(0, 1), nw.lit(0)
        for zeros, digits in _LEADING.items():
            within = nw.when(first.is_in(digits)).then(zeros).otherwise(within)
        run = nw.min_horizontal(whole + within + 1, nw.lit(_LONGEST))
        return hashed.with_columns(run.cast(nw.Int64).alias(RUN)).drop(_TEXT, _HASH, _REST)

    def compute_sum_deltas(self, deltas: nw.LazyFrame[Any], tick_range: TickRange) -> nw.LazyFrame[Any]:
        """Return what this epoch adds to the two sums of the estimate, from each pane on."""
        *named, _pane = self.table.key
        known = self.read_known(deltas.select(*named).unique(), tick_range)
        return self.sum_effects(self.compute_running(deltas, known))

    @property
    def sum_exprs(self) -> dict[str, Callable[[str], nw.Expr]]:
        """The two sums that `estimate` needs."""
        inverse, used = sums_of(self.measure)
        return {inverse: _inverse, used: lambda each: (nw.col(each) > 0).cast(nw.Int64)}


def estimate(measure: Measure) -> nw.Expr:
    """The estimate, from its sums. Two of three are within 2 %, nearly all within 4 %. It never decreases."""
    inverse, used = (nw.col(name).cast(nw.Float64) for name in sums_of(measure))
    raw = _ALPHA * _REGISTERS * _REGISTERS * _ONE / (inverse + float(_REGISTERS * _ONE))
    free = _REGISTERS - used
    at_least_one = nw.when(free > 0).then(free).otherwise(1.0)
    # Capped where the raw estimate takes over: otherwise the curve could dip at the switch.
    linear = nw.min_horizontal((nw.lit(float(_REGISTERS)) / at_least_one).log() * _REGISTERS, nw.lit(_SMALL))
    chosen = nw.when((raw <= _SMALL) & (free > 0)).then(linear).otherwise(raw)
    return (chosen + 0.5).floor().cast(nw.Int64).alias(measure.name)


def _inverse(run: str) -> nw.Expr:
    """What a register adds to the sum of 2^-run - 1, in units of 2^-40; 0 while it is not in use."""
    power: nw.Expr = nw.lit(2.0) ** (nw.lit(_LONGEST) - nw.col(run))
    inverse: nw.Expr = power.cast(nw.Int64) - _ONE
    return inverse
