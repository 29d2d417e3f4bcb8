"""PySpark's worker daemon with a shorter Python path: ``spark.python.daemon.module``.

Workers get PySpark a second time, as a zip archive. Before each task they clear Python's import caches. Python 3.11
then reads the directory of that archive again, once for each package in it: 65 ms per task, more than an epoch's rows
take. So if PySpark is installed as well, archives are removed from the path.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder


def _leave_archives_out() -> None:
    folders = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    if PathFinder.find_spec("pyspark", folders) and PathFinder.find_spec("py4j", folders):
        sys.path[:] = folders
        # Python's `copy` tries to import a module `org`, and finds a folder of that name in Spark's jar.
        sys.modules.pop("org", None)
        sys.path_importer_cache.clear()


if __name__ == "__main__":
    _leave_archives_out()
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]
