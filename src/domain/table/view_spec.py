"""The specification of a view: its columns, its key, and how it can be queried."""

from __future__ import annotations

from attrs import field, frozen

from .schema import Schema


@frozen
class ViewSpec:
    """A view that a service offers.

    Args:
        name: its name without that of the pipeline; a query names it ``pipeline.name``.
        schema: its columns.
        key: the columns that identify a row; empty if rows have no key.
        sort: the columns that it is sorted by for display.
        about: one line about it, for display.
        between: whether it is queried between two publications instead of at one.
        takes_as_of: whether it can be read as of an event time.
        timed: whether such a read is exact: it has the rows of that time, not only those up to it.
        undated: why such a read would be wrong, for display; None if it is right.
        curve_zone: the time zone in which it is drawn as a curve; None if it is not a curve.
        null_keys: whether key columns may be null; as in SQL's GROUP BY, null is then a value of its own.
        moments: of a materialized view, whether each publication shows one moment; None if it is said not to, and of
            other views.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    sort: tuple[str, ...] = field(converter=tuple[str, ...])
    about: str
    between: bool = False
    takes_as_of: bool = False
    timed: bool = False
    undated: str | None = None
    curve_zone: str | None = None
    null_keys: bool = False
    moments: bool | None = None
