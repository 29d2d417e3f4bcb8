"""Optional Python packages, and the extras of Headwater that install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...domain.errors import NotInstalled


def not_installed(package: str, extra: str) -> NotInstalled:
    """Return the error of a package that is missing; it names the extra to install."""
    return NotInstalled(f"{package} is not installed: run pip install 'headwater[{extra}]'")


@contextmanager
def require(package: str, *, extra: str) -> Iterator[None]:
    """Import a package inside this block.

    Raises:
        NotInstalled: the package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise not_installed(package, extra) from error
