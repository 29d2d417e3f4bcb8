"""What belongs to its process."""

from __future__ import annotations

from typing import NoReturn


class InProcess:
    """An object with open tables, connections and threads, which no other process can use."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be pickled or copied, because its tables, connections and threads belong to this process:"
            " open another Headwater where it is needed, for example in the function that a worker process runs"
        )
