"""The keys of CSV files that every kind of source of files has."""

from __future__ import annotations

from ...domain.source.csv_format import CsvFormat
from ..document.value_types import ANY_TEXT, TEXT, TEXT_OR_TEXTS, keys_of

CSV = keys_of(CsvFormat, delimiter=TEXT, quote=ANY_TEXT, escape=TEXT, null_value=TEXT_OR_TEXTS, comment=TEXT)
