"""Parses the parameters of commands without pydantic, with which newer versions of typer do it.

Nearly all of rowlock's parameters are texts, flags and lists of texts, or have a parser of their own. Importing
pydantic for them would take a fifth of a command's start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# A parameter of typer has its conversion here, or None before it is used. Other versions have no such attribute, and
# convert as they do.
_CONVERSION = "_runtime_param"
_PLAIN = (str, bool, list[str])


def with_plain_parsers(parameters: list[Any]) -> list[Any]:  # Any: typer's parameters, which it does not export
    """Sets the conversion of the parameters, where this version of typer has one. Returns them."""
    for parameter in parameters:
        if getattr(parameter, _CONVERSION, parameter) is None:
            described = parameter.type_descriptor
            parser = described.parameter_info.parser
            if parser is not None or described.annotation in _PLAIN:
                setattr(parameter, _CONVERSION, _Conversion(parser))
    return parameters


class _Conversion:
    """Stands in for typer's RuntimeParam."""

    def __init__(self, parser: Callable[[Any], object] | None) -> None:
        self._parser = parser

    def coerce(self, value: Any, param: Any, ctx: Any) -> object:
        """Returns the parsed value, a list for a parameter that may be repeated."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, list | tuple):
            return [self._parsed(item) for item in value]
        return self._parsed(value)

    def _parsed(self, value: object) -> object:
        return value if self._parser is None else self._parser(value)
