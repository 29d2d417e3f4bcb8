"""The keys that say how text files are written, which every kind of source of files has."""

from __future__ import annotations

from ...domain.source.csv_format import CsvFormat
from ...domain.source.record_spec import LAYOUTS, LINES
from ..document.value_types import ANY_TEXT, TEXT, TEXT_OR_TEXTS, Key, choice, keys_of

WRITTEN = {
    "layout": Key(choice(*LAYOUTS), LINES),
    **keys_of(CsvFormat, delimiter=TEXT, quote=ANY_TEXT, escape=TEXT, null_value=TEXT_OR_TEXTS, comment=TEXT),
}
