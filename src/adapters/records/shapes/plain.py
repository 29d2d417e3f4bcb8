"""The shapes of rows in plain JSON."""

from __future__ import annotations

from ....domain.table.row_kind import INSERT, row_kind
from .cell import Writing
from .draft import Draft
from .sample import Unlearnable


def plain(draft: Draft) -> None:
    """Read a row."""
    spec, writing = draft.spec, Writing(draft.spec.time_zone, texts=False)
    kind = row_kind(draft.word(spec.row_kind)) if spec.row_kind else INSERT
    if kind is None:
        raise Unlearnable("row kind")
    draft.kind = kind
    draft.new = draft.image(draft.root, lambda _: writing) | draft.absent(draft.root)
