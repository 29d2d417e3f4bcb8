"""The engines: they compute with frames and run user-supplied SQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import narwhals as nw

from ..table.schema import Schema


class FrameCache(Protocol):
    """Where frames are computed and cached."""

    concurrent: ClassVar[bool] = False
    """Whether several threads may use it at the same time, and `release` drops no frames of another thread."""

    @abstractmethod
    def expect(self, rows: int) -> None:
        """Tell the engine how many rows the work until `release` is about, so that it can plan for that many."""

    @abstractmethod
    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The same rows, computed at most once and cached until `release`."""

    @abstractmethod
    def release(self) -> None:
        """Drop all persisted frames, and the number of rows set by `expect`."""

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Compute frames inside this block: the engine's errors about stored rows are raised as Headwater's errors.

        Raises:
            VersionExpired: a file is gone; the version had no lease and expired after the frame was requested.
            TableDamaged: a file is truncated or changed.
            StoreUnavailable: the rows cannot be reached at present.
        """

    def working(self) -> AbstractContextManager[None]:
        """As `explaining`. In addition no setting of the calling program (its session) changes a result."""
        return self.explaining()


class FrameExchange(Protocol):
    """Frames from rows and rows from frames; frames from the user's program and frames for it."""

    @abstractmethod
    def frame(self, rows: Sequence[Mapping[str, Any]], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of a few rows.

        Args:
            rows: the Python values of each row by column name; timestamps are aware. There may be no rows.
            schema: the columns.
        """

    @abstractmethod
    def parts(self, frame: nw.LazyFrame[Any]) -> Iterator[nw.DataFrame[Any]]:
        """The rows of a frame in its order, as frames of some rows, computed.

        The frame may be large: only a part of its rows is in the memory of the driver at a time, if the engine can.
        Select timestamps as numbers (`wall_micros`): an engine may hand them out without a zone.
        """

    @abstractmethod
    def from_native(self, frame: Any) -> nw.LazyFrame[Any]:
        """Convert a user's frame into a lazy narwhals frame of this engine."""

    @abstractmethod
    def to_native(self, frame: nw.LazyFrame[Any]) -> Any:
        """Convert a frame for the user, to the kind of frame that the engine's users work with."""


class FrameFunctions(Protocol):
    """Operations that narwhals does not offer, or not with the same result on every engine."""

    @abstractmethod
    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add bigint `into`: a timestamp or date `column` as microseconds from 1970 on a zone's wall clock.

        A nested column stays nested; the timestamps inside become microseconds in UTC, whatever the zone.
        """

    @abstractmethod
    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add timestamp `into`: the instant at which a zone's wall clock shows `column` microseconds from 1970.

        If there are two such instants (clocks set back), the earlier one. If there is none (clocks set forward), the
        time that the offset before the gap gives.
        """

    @abstractmethod
    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        """Repeat each row for every whole number from column `low` to column `high`, inclusive, in bigint `into`.

        A row whose `low` is above its `high`, or in which either is null, is dropped.
        """

    @abstractmethod
    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        """Add string `into`: the MD5 of the UTF-8 bytes of a value's text as 32 hexadecimal digits; null for null.

        Args:
            frame: the rows.
            column: a column of strings, booleans, dates, whole numbers, or decimals, whose text has no exponent.
            into: the new column.
        """

    @abstractmethod
    def add_up(
        self, frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
    ) -> nw.LazyFrame[Any]:
        """One row for each group, with exact sums in the types of their columns.

        Args:
            frame: the rows; nulls are ignored.
            by: the columns to group by.
            sums: columns of whole numbers and decimals. A sum that overflows and comes back into range is exact.
            most: columns whose maximum is taken.

        Returns:
            The columns `by`, `sums` and `most`.

        Raises:
            SumOverflow: when computed: a sum does not fit into its column. An engine may assume that columns which
                are not the sum of a measure (see `sums.SUM`) fit, because they count rows.
        """


class Order(NamedTuple):
    """A column that rows are ordered by.

    Args:
        column: its name.
        descending: whether the highest value comes first.
        nulls_last: whether rows without a value come last, else first.
    """

    column: str
    descending: bool = False
    nulls_last: bool = False


RankMethod = Literal["dense", "min", "max"]
"""How equal rows rank: by the number of different values up to theirs, or by the lowest or highest of their places."""


class FrameOrder(Protocol):
    """Operations on the rows of groups that are in an order."""

    @abstractmethod
    def running(
        self, frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str
    ) -> nw.LazyFrame[Any]:
        """The same rows, with each of `sums` replaced by its running total within the group.

        Args:
            frame: the rows.
            sums: columns of whole numbers and decimals.
            over: the columns to group by.
            order_by: orders the rows of a group; unique within the group.

        Raises:
            SumOverflow: see `FrameFunctions.add_up`.
        """

    @abstractmethod
    def following(
        self, frame: nw.LazyFrame[Any], columns: Mapping[str, str], *, within: str, order_by: str
    ) -> nw.LazyFrame[Any]:
        """Add values of the following row; null in the last row of a group.

        Args:
            frame: the rows. In the order of `order_by`, those of a group are next to each other.
            columns: the column whose value is taken, by the column to add.
            within: the column to group by.
            order_by: orders all rows; unique.
        """

    @abstractmethod
    def behind(
        self, frame: nw.LazyFrame[Any], order: Sequence[str], *, within: str, order_by: str, into: str
    ) -> nw.LazyFrame[Any]:
        """Add boolean `into`: whether an earlier row of the group has the same or a higher `order`.

        Args:
            frame: the rows; false where `within` is null.
            order: columns of texts or whole numbers, compared one after the other; null only where `within` is null.
            within: the column to group by.
            order_by: tells which row is earlier; unique.
            into: the column to add.
        """

    @abstractmethod
    def ranks(
        self, frame: nw.LazyFrame[Any], order: Sequence[Order], *, within: Sequence[str], into: Mapping[str, RankMethod]
    ) -> nw.LazyFrame[Any]:
        """Add ranks of rows within their group, as bigint.

        Args:
            frame: the rows.
            order: orders the rows of a group, column after column; nulls are equal, and so are NaN.
            within: the columns to group by.
            into: by column to add, how equal rows rank: see `RankMethod`.
        """

    @abstractmethod
    def highest(self, frame: nw.LazyFrame[Any], by: str, order: Sequence[str]) -> nw.LazyFrame[Any]:
        """The columns `by` and `order` of the row with the highest `order` of each group.

        Args:
            frame: the rows.
            by: the column to group by; never null.
            order: columns of texts or whole numbers, compared one after the other; never null.
        """


class FrameEngine(FrameCache, FrameExchange, FrameFunctions, FrameOrder, Protocol):
    """The four ports for frames together; a backend provides this one."""


class QueryEngine(Protocol):
    """User-supplied SQL, in Spark's dialect, over frames and over plain tables."""

    @abstractmethod
    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]], *, lenient: bool = False) -> nw.LazyFrame[Any]:
        """The rows of one query, computed lazily if the engine can, else immediately.

        Args:
            sql: see `sql.parse_statement`.
            tables: the tables it may read, by name; names are case-insensitive.
            lenient: whether a value of the result that cannot be computed, or is a time outside 0001-01-01 to
                9999-12-31, is null. Else it stops the query.

        Raises:
            ConfigError: it cannot be parsed; a column, table or function is unknown; two of its columns have the same
                name; or this engine's result would differ from Spark's.
            BadInput: a value does not fit its type, if the engine computes immediately.
            SumOverflow: a sum or an average does not fit its type; at the latest when the rows are computed.
        """

    @abstractmethod
    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - as configurations call it
        """The rows of a plain table: a file, or a folder of files.

        Args:
            path: its path.
            format: ``parquet``; ``csv`` (the first line has the column names; all columns are text); ``json`` (one
                object per line; columns sorted by name); ``delta`` and ``hudi`` if the engine reads them.

        Raises:
            ConfigError: there is no such format, or nothing at the path.
            NotSupported: the engine does not read that format.
        """

    @abstractmethod
    def state(self, path: str, format: str) -> str:  # noqa: A002 - as configurations call it
        """A digest of a plain table's present content, from the names, sizes and times of its files.

        Args:
            path: its path.
            format: as in `scan`.

        Raises:
            ConfigError: there is nothing at the path.
        """
