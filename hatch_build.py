"""Compiles the matcher of records, where there is a C compiler; without one the package is of Python alone."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = "src/adapters/records/shapes"
_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC")


class MatcherHook(BuildHookInterface[Any]):
    """Puts the compiled matcher into a wheel, which then is of one platform; in an editable install, beside its source.

    ``HEADWATER_PURE=1`` builds a wheel without it, for every platform.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatch before a build; see `BuildHookInterface`."""
        folder = Path(self.root, _FOLDER)
        library = folder / "match.lib"  # Python would take a name with .so for a module
        if os.environ.get("HEADWATER_PURE") == "1" or not self._compile(folder / "match.c", library):
            return
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["force_include"][str(library)] = f"headwater/{library.relative_to(Path(self.root, 'src'))}"

    def _compile(self, source: Path, library: Path) -> bool:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            self.app.display_warning("no C compiler: records will be matched by regular expressions, which is slower")
            return False
        made = library.with_suffix(f".{os.getpid()}")  # another process may be using the one that is there
        # The code and the Python that calls it must be of one version; native.py compares the digests.
        digest = f'-DSOURCE="{hashlib.sha256(source.read_bytes()).hexdigest()}"'
        result = subprocess.run([*compiler.split(), *_FLAGS, digest, "-o", str(made), str(source)], check=False)  # noqa: S603
        if result.returncode:
            made.unlink(missing_ok=True)
            self.app.display_warning(f"{compiler} could not compile {source}: records will be matched more slowly")
            return False
        made.replace(library)
        return True


def get_build_hook() -> type[MatcherHook]:
    """Called by hatch."""
    return MatcherHook


__all__ = ["get_build_hook"]
