"""A folder of small text files, each written atomically, on any file system that Hadoop supports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import define, field
from py4j.protocol import Py4JJavaError

from ...domain.ports import SmallFiles
from .jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@define(eq=False)
class HadoopFiles(SmallFiles):
    """The files of one folder, which need not exist yet. Exceptions of the JVM are not translated.

    They are written like the checkpoints of Structured Streaming: under a temporary name and then renamed, or in one
    piece on a store without rename. ``spark.sql.streaming.checkpointFileManagerClass`` selects another way.
    """

    session: SparkSession
    folder: str
    _opened: Any = field(init=False, default=None)

    def write(self, name: str, text: str) -> None:
        self._files.mkdirs(self._path())
        out = self._files.createAtomic(self._path(name), True)
        try:
            out.write(text.encode())
        except Py4JJavaError:
            out.cancel()
            raise
        out.close()

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name))

    def read(self) -> dict[str, str] | None:
        try:
            return {name: self.text(name) for name in self._names()}
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) != "java.io.FileNotFoundException":
                raise
            return None

    def text(self, name: str) -> str:
        """The text of a file, which must exist."""
        stream = self._files.open(self._path(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _names(self) -> list[str]:
        if not self._files.exists(self._path()):
            return []
        names = (str(status.getPath().getName()) for status in self._files.list(self._path()))
        return [name for name in names if not name.startswith(".")]

    def _path(self, name: str | None = None) -> Any:
        path = java_class(self.session, "org.apache.hadoop.fs.Path")
        return path(self.folder) if name is None else path(self.folder, name)

    @property
    def _files(self) -> Any:
        if self._opened is None:
            manager = java_class(self.session, "org.apache.spark.sql.execution.streaming.CheckpointFileManager")
            self._opened = manager.create(self._path(), hadoop_settings(self.session))
        return self._opened


def delete_files(session: SparkSession, paths: Iterable[str]) -> None:
    """Delete each file by its full path; missing files are ignored."""
    path, settings = java_class(session, "org.apache.hadoop.fs.Path"), hadoop_settings(session)
    for place in map(path, paths):
        place.getFileSystem(settings).delete(place, False)


def has_entry(session: SparkSession, path: str, name: str) -> bool:
    """Whether there is a folder at a path, and something of this name in it."""
    as_path = java_class(session, "org.apache.hadoop.fs.Path")
    place = as_path(path)
    files = place.getFileSystem(hadoop_settings(session))
    # Some file systems refuse to look below a file.
    return bool(files.exists(place) and files.getFileStatus(place).isDirectory() and files.exists(as_path(place, name)))


def list_files(session: SparkSession, path: str) -> list[tuple[str, int, int]]:
    """Path, size (bytes) and modification time (ms since 1970) of a file, or of all files below a folder."""
    place = java_class(session, "org.apache.hadoop.fs.Path")(path)
    files = place.getFileSystem(hadoop_settings(session)).listFiles(place, True)
    found = []
    while files.hasNext():
        status = files.next()
        found.append((str(status.getPath()), int(status.getLen()), int(status.getModificationTime())))
    return found


def list_below(session: SparkSession, path: str) -> list[tuple[str, ...]]:
    """The names of the folders below a folder and of the file, for each file; empty if it is not a folder."""
    place = java_class(session, "org.apache.hadoop.fs.Path")(path)
    files = place.getFileSystem(hadoop_settings(session))
    if not (files.exists(place) and (status := files.getFileStatus(place)).isDirectory()):
        return []
    folder = str(status.getPath())
    return [tuple(file.removeprefix(folder).strip("/").split("/")) for file, _, _ in list_files(session, path)]


def hadoop_settings(session: SparkSession) -> Any:
    """Hadoop's configuration, including the session's settings."""
    return session._jsparkSession.sessionState().newHadoopConf()
