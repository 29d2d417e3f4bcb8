"""A table's folder, by way of Hadoop, which reaches whatever Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import define, field

from ..spark.hadoop_files import HadoopFiles, hadoop_settings
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@define(eq=False)
class Folder:
    """The folder of one table. Errors of the JVM pass through."""

    session: SparkSession
    path: str
    _opened: Any = field(init=False, default=None)

    @property
    def local(self) -> str | None:
        """Its path on this machine; None if it is elsewhere."""
        scheme, _, path, *_ = urlsplit(self.path)
        return path if scheme == "file" else None if scheme else self.path

    def holds(self, name: str) -> bool:
        """Whether there is such a file or folder in it."""
        return bool(self._system.exists(self._inside(name)))

    def size(self, name: str) -> int | None:
        """How large a file of it is, in bytes; None if there is no such file."""
        file = self._inside(name)
        return int(self._system.getFileStatus(file).getLen()) if self._system.exists(file) else None

    @property
    def bytes(self) -> int:
        """How large all that is in it is, files of old versions too."""
        return int(self._system.getContentSummary(self._inside(".")).getLength())

    def remove(self, name: str) -> None:
        """Remove a file or folder, with all that is in it."""
        self._system.delete(self._inside(name), True)

    def folders(self) -> list[str]:
        """The names of its folders, hidden ones aside."""
        listed = self._system.listStatus(self._inside("."))
        return [status.getPath().getName() for status in listed if _shown(status)]

    @property
    def texts(self) -> HadoopFiles:
        """The small text files in it."""
        return HadoopFiles(self.session, self.path)

    @property
    def storage(self) -> Any:
        """The settings by which Hudi reaches it."""
        return self._java("org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(hadoop_settings(self.session))

    def _inside(self, name: str) -> Any:
        path = self._java("org.apache.hadoop.fs.Path")
        return self._system.makeQualified(path(self.path, name))

    @property
    def _system(self) -> Any:
        if self._opened is None:  # asked for each file of a commit, and Hadoop's settings are copied each time
            path = self._java("org.apache.hadoop.fs.Path")(self.path)
            self._opened = path.getFileSystem(hadoop_settings(self.session))
        return self._opened

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)


def _shown(status: Any) -> bool:
    return bool(status.isDirectory()) and not str(status.getPath().getName()).startswith(".")
