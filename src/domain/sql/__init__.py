"""Parsing and checking of user-supplied SQL, in Spark's dialect, without an engine."""

from .aggregate import Aggregate, parse_aggregate
from .expression import Expression, explain_names, parse_expression, parse_row_expression
from .statement import Statement, check_column_names, parse_statement, with_parameters

__all__ = [
    "Aggregate",
    "Expression",
    "Statement",
    "check_column_names",
    "explain_names",
    "parse_aggregate",
    "parse_expression",
    "parse_row_expression",
    "parse_statement",
    "with_parameters",
]
