"""A hook of MkDocs: what the pages link to outside of docs/ becomes a page of the site."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?P<text>\[[^\]]*\]\()(?P<path>(?:\.\./)+[^)#\s]+)")
_CODE = re.compile(r"(```.*?```)", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file and folder outside of docs/ that a page links to."""
    for target in sorted({target for page in DOCS.rglob("*.md") for target in _links_outside(page)}):
        place = _place(target)
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, content=_content(target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let these links lead to those pages."""
    del config, files
    if page.file.generated_by:
        return markdown
    source = DOCS / page.file.src_uri
    parts = _CODE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(lambda m: _led(m, source), part) for part in parts)


def _led(link: re.Match[str], source: Path) -> str:
    target = _target(source, link["path"])
    if target.is_relative_to(DOCS) or not target.exists():  # a link that leads nowhere is for MkDocs to find
        return link[0]
    return link["text"] + os.path.relpath(DOCS / _place(target), source.parent)


def _links_outside(page: Path) -> Iterator[Path]:
    for link in _LINK.finditer(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target = _target(page, link["path"])
        if target.exists() and not target.is_relative_to(DOCS):
            yield target


def _target(page: Path, path: str) -> Path:
    return (page.parent / path).resolve()


def _place(target: Path) -> str:
    """Where the page of a file stands on the site; the front page takes the place of the README."""
    name = target.relative_to(ROOT)
    return "index.md" if name == Path("README.md") else f"checkout/{name}.md"


def _content(target: Path) -> str:
    name = target.relative_to(ROOT)
    if target.is_dir():
        shown = "\n".join(sorted(str(each.relative_to(target)) for each in target.rglob("*.*") if _is_source(each)))
        return f"# {name}\n\nA folder of the checkout:\n\n```text\n{shown}\n```\n"
    return f"# {name}\n\nA file of the checkout:\n\n```{target.suffix[1:]}\n{target.read_text(encoding='utf-8')}\n```\n"


def _is_source(file: Path) -> bool:
    return file.is_file() and not any(part.startswith((".", "__pycache__")) for part in file.relative_to(ROOT).parts)
