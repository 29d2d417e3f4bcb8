"""Replaces other spellings of an expression by the one that the rules know."""

from __future__ import annotations

from sqlglot import exp

from ..errors import ConfigError

_FIELDS: dict[str, type[exp.Func]] = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), exp.Year),
    **dict.fromkeys(("QUARTER", "QTR"), exp.Quarter),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), exp.Month),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), exp.WeekOfYear),
    **dict.fromkeys(("DAY", "D", "DAYS"), exp.Day),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), exp.DayOfWeek),
    "DOY": exp.DayOfYear,
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), exp.Hour),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), exp.Minute),
}
_SECONDS = frozenset({"SECOND", "S", "SEC", "SECONDS", "SECS"})
_KNOWN = "year, quarter, month, week, day, dayofweek, doy, hour, minute, second"
_DATE_PARTS = frozenset({"date_part", "datepart"})
_DATE_PART_ARGUMENTS = 2


def with_known_spellings(tree: exp.Expr) -> exp.Expr:
    """The same query, in spellings that the rules know.

    Raises:
        ConfigError: a part of a time is unknown.
    """
    return tree.transform(_respelled)


def _respelled(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.lower() in _DATE_PARTS:
        node = _extract(node)
    if isinstance(node, exp.Extract):
        return _part(node)
    return _unnegated(node)


def _unnegated(node: exp.Expr) -> exp.Expr:
    """Newer versions of sqlglot read ``a NOT LIKE b`` as one node, older ones as two."""
    if not isinstance(node, exp.Like) or not node.args.get("negate"):
        return node
    return exp.Not(this=exp.Like(this=node.this, expression=node.expression))


def _extract(node: exp.Anonymous) -> exp.Expr:
    """``date_part('year', d)`` is ``extract(year FROM d)``."""
    if len(node.expressions) != _DATE_PART_ARGUMENTS or not isinstance(node.expressions[0], exp.Literal):
        raise ConfigError(f"{node.sql('spark')}: write the part as text, as in date_part('year', d)")
    part, moment = node.expressions
    return exp.Extract(this=exp.var(part.name), expression=moment)


def _part(node: exp.Extract) -> exp.Expr:
    name = node.name.upper()
    if name in _SECONDS:
        return exp.Extract(this=exp.var("SECOND"), expression=node.expression)
    if name not in _FIELDS:
        raise ConfigError(f"{node.sql('spark')}: unknown part; known: {_KNOWN}")
    return _FIELDS[name](this=node.expression)
