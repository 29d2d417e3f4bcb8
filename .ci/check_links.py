"""Checks that every relative link of the Markdown pages leads to a file, and every anchor to a heading."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)


def pages() -> list[Path]:
    """The project's own pages."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {link} leads nowhere"


def main() -> int:
    """Print what is broken; 0 if nothing is."""
    problems = [problem for page in pages() for problem in broken(page)]
    print(*problems, f"{len(pages())} pages, {len(problems)} broken links", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
