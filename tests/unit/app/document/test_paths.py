"""Paths as they stand in configuration files and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.app.document.paths import resolve, without_file_scheme
from headwater.domain.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///a%23b%3Fc", "/a#b?c"),
        ("file://localhost/a", "/a"),
        ("a#b?c%20[", "a#b?c%20["),
        ("s3a://bucket/a", "s3a://bucket/a"),
    ],
)
def test_a_file_uri_is_a_path(text: str, path: str) -> None:
    assert without_file_scheme(text) == path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("file:///a#b", "must be a path and nothing else; write %3F for [?] and %23 for #"),
        ("file:///a?b=c", "must be a path and nothing else"),
        ("file:", "must be a path and nothing else"),
        ("file://host/a", "names the host 'host'"),
        ("s3a://[b", "is not an address: Invalid IPv6 URL"),
        ("a\0b", "has a null character"),
    ],
)
def test_what_is_no_path_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        without_file_scheme(text)


def test_what_no_file_system_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r"/loop' cannot be a path: Too many levels of symbolic links"):
        resolve("loop", tmp_path)
    with pytest.raises(ConfigError, match="x' cannot be a path: File name too long"):
        resolve("x" * 300, tmp_path)
    assert resolve("not/there", tmp_path) == str(tmp_path / "not" / "there")


def test_a_relative_path_needs_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="the working directory was removed; change to another one"):
        resolve("lake", Path())
    assert resolve("lake", tmp_path) == str(tmp_path / "lake")


def test_a_folder_above_whose_name_is_no_text_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = tmp_path / "b\udcff"
    strange.mkdir()
    with pytest.raises(ConfigError, match=r"b\\udcff/lake' is not UTF-8; rename it"):
        resolve("lake", strange)
    monkeypatch.chdir(strange)
    with pytest.raises(ConfigError, match=r"b\\udcff/lake' is not UTF-8; rename it"):
        resolve("lake", Path())
