"""Inputs of pipelines that read other pipelines."""

from __future__ import annotations

from collections.abc import Mapping

from ...domain.service.input import PlainTable, ViewOf


def view_named(text: str) -> ViewOf:
    """Parse ``PIPELINE`` or ``PIPELINE.VIEW``.

    >>> view_named("visits.ranks")
    ViewOf(pipeline='visits', view='ranks')
    """
    pipeline, _, view = text.partition(".")
    return ViewOf(pipeline, view or None)


def describe_inputs(inputs: Mapping[str, ViewOf | PlainTable]) -> str:
    """The inputs as text, for ``headwater check``."""
    return ", ".join(f"{name} ({each})" for name, each in inputs.items())
