"""An extension of griffe: classes that attrs makes get their signatures, so the API page has types and defaults."""

from __future__ import annotations

from typing import Any

import griffe

_MAKERS = {"define", "frozen", "attrs.define", "attrs.frozen"}
_FIELDS = {"field", "attrs.field"}
_KIND = griffe.ParameterKind.positional_or_keyword


class AttrsSignatures(griffe.Extension):
    """Adds the `__init__` that attrs writes."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Griffe has read a class."""
        if "__init__" in cls.members or not any(_name(each.value) in _MAKERS for each in cls.decorators):
            return
        fields = [
            _parameter(each) for each in cls.members.values() if isinstance(each, griffe.Attribute) and _set(each)
        ]
        parameters = griffe.Parameters(griffe.Parameter("self", kind=_KIND), *fields)
        cls.set_member("__init__", griffe.Function("__init__", parameters=parameters, parent=cls))


def _name(called: str | griffe.Expr) -> str:
    return str(called.function if isinstance(called, griffe.ExprCall) else called)


def _set(attribute: griffe.Attribute) -> bool:
    """Whether callers set it."""
    kept = attribute.annotation is not None and "instance-attribute" in attribute.labels
    return kept and _options(attribute).get("init") != "False"


def _parameter(attribute: griffe.Attribute) -> griffe.Parameter:
    options = _options(attribute)
    default = f"{options['factory']}()" if "factory" in options else options.get("default")
    return griffe.Parameter(attribute.name.lstrip("_"), annotation=attribute.annotation, kind=_KIND, default=default)


def _options(attribute: griffe.Attribute) -> dict[str, str]:
    value = attribute.value
    if isinstance(value, griffe.ExprCall) and _name(value) in _FIELDS:
        return {each.name: str(each.value) for each in value.arguments if isinstance(each, griffe.ExprKeyword)}
    return {} if value is None else {"default": str(value)}
