"""Regular expressions of Java, which Spark uses, as RE2, which DuckDB uses, has them."""

from __future__ import annotations

import re

from ....domain.errors import ConfigError

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_SAME = {
    ".": f"[^{_LINE_ENDS}]",
    "$": rf"(?:\r\n|[{_LINE_ENDS}])?\z",
    r"\s": r"[\t-\r ]",
    r"\S": r"[^\t-\r ]",
}
"""What Java means by constructs that mean something else to RE2."""
_PUNCTUATION = r"[!-/:-@\[-^`{-~]"
_PART = re.compile(
    rf"""\[\^?\]?(?:\\(?:[dDwWstnrf]|x[0-9a-fA-F]{{2}}|{_PUNCTUATION})|([&|~-])(?!\1)|[^\]\[\\&|~-])*\]
    | \\(?:[dDwWsStnrfA]|x[0-9a-fA-F]{{2}}|{_PUNCTUATION})
    | \$(?=$|\||\))
    | (?:[*+?]|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})\??(?![*+?{{])
    | \((?:\?:|(?!\?))
    | [^\\\[($*+?{{]""",
    re.VERBOSE | re.DOTALL,
)
"""One construct that both know: a class, an escape, the end, a repetition, the beginning of a group, or a letter."""
_FOLDED = re.compile(r"[sSkKwW\\\[]")
"""RE2 ignores the case of all letters, and of ASCII s and k also finds two others; Java that of ASCII only."""


def pattern_of(java: str) -> str:
    """The pattern with which RE2 finds what Java finds.

    Raises:
        ConfigError: there is none, or the text is not a pattern.
    """
    flags = "" if _body(java) == java else "(?i)"
    return flags + "".join(_class(each) if each[0] == "[" else _SAME.get(each, each) for each in _parts(java))


def separator_of(java: str) -> str:
    """The pattern at which DuckDB splits a text as Java does.

    Raises:
        ConfigError: see `pattern_of`; or it finds an empty text, or the beginning or the end.
    """
    found = pattern_of(java)
    if re.match(java, "") or {"^", "$", r"\A"}.intersection(_parts(java)):
        raise _refusal(
            java,
            "a match that may be empty, or the beginning or the end",
            "a text that is found, such as [|] for a bar",
        )
    return found


def _body(java: str) -> str:
    return java.removeprefix("(?i)")


def _parts(java: str) -> list[str]:
    """The constructs of a pattern."""
    body = _body(java)
    if body != java and (not body.isascii() or _FOLDED.search(body)):
        raise _refusal(java, "(?i) with s, k, w, a class, an escape or a letter like é", "lower(x) RLIKE")
    found, at = [], 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            raise _refusal(java, repr(body[at : at + 3]), "it in another way")
        found.append(part[0])
        at = part.end()
    _check(java)
    return found


def _class(text: str) -> str:
    return re.sub(r"\\(.)", lambda each: r"\t-\r " if each[1] == "s" else each[0], text)


def _check(java: str) -> None:
    """Check that a text of known constructs is a pattern: Python knows all of them."""
    try:
        re.compile(java)
    except re.error as error:
        raise ConfigError(f"{java!r} is not a pattern: {error}; write a regular expression of Java") from error


def _refusal(java: str, what: str, instead: str) -> ConfigError:
    return ConfigError(
        f"pattern {java!r} has {what}, which finds something else here than on Spark; write {instead}, or use"
        ' engine = "spark"'
    )
