"""Optional Python packages, and the extras of Headwater that install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ...domain.errors import NotInstalled


def not_installed(package: str, extra: str) -> NotInstalled:
    """Return the error of a package that is missing; it names the extra to install."""
    return NotInstalled(f"{package} is not installed: run pip install 'headwater[{extra}]'")


def is_installed(package: str) -> bool:
    """Whether a package can be imported; only the packages that contain it are."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # one of those that contain it
        return False


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
