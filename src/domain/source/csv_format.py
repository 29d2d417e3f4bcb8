"""How a CSV file is written."""

from __future__ import annotations

import re

from attrs import fields, frozen

from ..errors import ConfigError
from ..table.schema import Schema

_DELIMITER = r"[\t!#-/:-@\[-`{-~ ]"
_MARK = r"[!-/:-@\[-`{-~]"


@frozen
class CsvFormat:
    r"""How a CSV file is written; by default as RFC 4180 says.

    Args:
        delimiter: the character between fields.
        quote: the character around a field that may contain delimiters and line breaks; empty: fields have no quotes.
        escape: the character before a quote, and before itself, inside quotes; None: a quote is written twice.
        header: whether the first line has the names of the columns. Else the fields are the columns of the schema, in
            its order.
        null_value: the texts of fields that are null; a field in quotes is never null.
        comment: the first character of lines that are skipped; None: there are no such lines.

    Raises:
        ConfigError: a character cannot be used for this, or is used twice.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    header: bool = True
    null_value: tuple[str, ...] = ("",)
    comment: str | None = None

    def __attrs_post_init__(self) -> None:
        if not re.fullmatch(_DELIMITER, self.delimiter):
            raise ConfigError(f"delimiter {self.delimiter!r} must be one ASCII character such as ';' or a tab")
        used = {self.delimiter: "delimiter"}
        for name in ("quote", "escape", "comment"):
            mark = getattr(self, name)
            if not mark and (name == "quote" or mark is None):
                continue
            if not re.fullmatch(_MARK, mark):
                raise ConfigError(f"{name} {mark!r} must be one ASCII character that is not a letter, digit or space")
            if mark in used and not (name == "escape" and used[mark] == "quote"):
                raise ConfigError(f"{name} {mark!r} is the {used[mark]} already; choose another character")
            used[mark] = name
        if self.escape and not self.quote:
            raise ConfigError("escape has no effect without quote; leave it out")

    def check(self, schema: Schema) -> None:
        """Check that records can have the columns of a schema.

        Raises:
            ConfigError: a column is nested.
        """
        if nested := [each for each in schema.columns if each.type.is_nested]:
            raise ConfigError(
                f"schema: column {nested[0].name!r} is {nested[0].type.ddl}, and csv has no nested values: declare it"
                " as string, or read JSON or Parquet"
            )

    @property
    def settings(self) -> str:
        """The names of the settings that differ from their default, separated by commas."""
        return ", ".join(each.name for each in fields(CsvFormat) if getattr(self, each.name) != each.default)


RFC_4180 = CsvFormat()
