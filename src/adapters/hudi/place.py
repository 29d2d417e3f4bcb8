"""A table's folder, by way of Hadoop, which reaches whatever Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import define

from ..spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


@define(eq=False)
class Folder:
    """The folder of one table. Errors of the JVM pass through."""

    session: SparkSession
    path: str

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

    def text(self, name: str) -> str:
        """What a file of it holds."""
        with_lines = self._java("org.apache.commons.io.IOUtils").toString
        stream = self._system.open(self._inside(name))
        try:
            return str(with_lines(stream, "UTF-8"))
        finally:
            stream.close()

    def put(self, name: str, text: str) -> None:
        """Write a file as a whole, in the place of an older one."""
        unfinished = self._inside(f"{name}.new")
        stream = self._system.create(unfinished, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._replace(unfinished, self._inside(name))

    def remove(self, name: str) -> None:
        """Remove a file or folder, with all that is in it."""
        self._system.delete(self._inside(name), True)

    def folders(self) -> list[str]:
        """The names of its folders, hidden ones aside."""
        listed = self._system.listStatus(self._inside("."))
        return [status.getPath().getName() for status in listed if _shown(status)]

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files of it, by their whole paths, one after the other; those that are gone are passed over."""
        path, system = self._java("org.apache.hadoop.fs.Path"), self._system
        for each in paths:
            system.delete(path(each), False)

    @property
    def storage(self) -> Any:
        """The settings by which Hudi reaches it."""
        return self._java("org.apache.hudi.hadoop.fs.HadoopFSUtils").getStorageConf(self._settings)

    def _replace(self, source: Any, target: Any) -> None:
        gateway = self.session.sparkContext._gateway
        assert gateway is not None
        rename = self._java("org.apache.hadoop.fs.Options$Rename")
        how = gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        context = self._java("org.apache.hadoop.fs.FileContext").getFileContext(target.toUri(), self._settings)
        context.rename(source, target, how)

    def _inside(self, name: str) -> Any:
        path = self._java("org.apache.hadoop.fs.Path")
        return self._system.makeQualified(path(self.path, name))

    @property
    def _system(self) -> Any:
        return self._java("org.apache.hadoop.fs.Path")(self.path).getFileSystem(self._settings)

    @property
    def _settings(self) -> Any:
        return self.session._jsparkSession.sessionState().newHadoopConf()

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)


def _shown(status: Any) -> bool:
    return bool(status.isDirectory()) and not str(status.getPath().getName()).startswith(".")
