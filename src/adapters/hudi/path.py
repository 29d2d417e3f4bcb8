"""A table's folder, through Hadoop, which reaches every file system that Spark does."""

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
    """The folder of one table. Exceptions of the JVM are not translated."""

    session: SparkSession
    path: str
    _opened: Any = field(init=False, default=None)

    @property
    def local(self) -> str | None:
        """Its path on this machine; None if it is remote."""
        scheme, _, path, *_ = urlsplit(self.path)
        return path if scheme == "file" else None if scheme else self.path

    def holds(self, name: str) -> bool:
        """Whether it contains a file or folder of this name."""
        return bool(self._system.exists(self._inside(name)))

    def has_files(self, name: str) -> bool:
        """Whether a folder inside it exists and contains files."""
        folder = self._inside(name)
        return bool(self._system.exists(folder)) and any(each.isFile() for each in self._system.listStatus(folder))

    def size(self, name: str) -> int | None:
        """The size of one of its files, in bytes; None if the file does not exist."""
        file = self._inside(name)
        return int(self._system.getFileStatus(file).getLen()) if self._system.exists(file) else None

    @property
    def bytes(self) -> int:
        """The size of everything in it, in bytes, including files of old versions."""
        return int(self._system.getContentSummary(self._inside(".")).getLength())

    def remove(self, name: str) -> None:
        """Delete a file, or a folder with its content."""
        self._system.delete(self._inside(name), True)

    def folders(self) -> list[str]:
        """The names of its subfolders, without hidden ones."""
        listed = self._system.listStatus(self._inside("."))
        return [status.getPath().getName() for status in listed if _shown(status)]

    @property
    def texts(self) -> HadoopFiles:
        return HadoopFiles(self.session, self.path)

    @property
    def storage(self) -> Any:
        """Hudi's storage configuration for it."""
        return self._java("org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(hadoop_settings(self.session))

    def _inside(self, name: str) -> Any:
        path = self._java("org.apache.hadoop.fs.Path")
        return self._system.makeQualified(path(self.path, name))

    @property
    def _system(self) -> Any:
        if self._opened is None:  # cached: it is needed for each file, and each call would copy Hadoop's settings
            path = self._java("org.apache.hadoop.fs.Path")(self.path)
            self._opened = path.getFileSystem(hadoop_settings(self.session))
        return self._opened

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)


def _shown(status: Any) -> bool:
    return bool(status.isDirectory()) and not str(status.getPath().getName()).startswith(".")
