"""The shapes of rows in plain JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....domain.table.row_kind import INSERT, row_kind
from .cell import Writing
from .sample import Unlearnable

if TYPE_CHECKING:
    from .draft import Draft


def plain(draft: Draft) -> None:
    """Read a row."""
    spec, writing = draft.spec, Writing(draft.spec.time_zone, texts=False)
    kind = row_kind(draft.word(spec.row_kind)) if spec.row_kind else INSERT
    if kind is None:
        raise Unlearnable("row kind")
    draft.kind = kind
    draft.new = draft.image(draft.root, lambda _: writing) | draft.absent(draft.root)
