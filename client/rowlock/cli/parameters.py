"""The parameters of commands, as completion needs them, from the signatures from which typer makes the commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command.

    names: of an option, like --where and -m; empty for an argument. metavar: what its value is, like TABLE; empty for a
    flag. is_repeated: it may be given several times. help: what it does.
    """

    names: tuple[str, ...]
    metavar: str
    is_repeated: bool
    help: str


# What every command has.
COMMON = (
    Parameter(("--server",), "HOST:PORT", False, "The server."),
    Parameter(("--timeout",), "SECONDS", False, "Of each request."),
    Parameter(("--json",), "", False, "Print results as JSON."),
    Parameter(("--help", "-h"), "", False, "Show the command's help."),
)


@lru_cache(maxsize=100)
def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Returns the parameters of a command's function, in order, with those that all commands have."""
    hints = get_type_hints(function, include_extras=True)
    own = [_parameter(hints[name]) for name in list(inspect.signature(function).parameters)[1:]]
    return (*own, *COMMON)


def _parameter(hint: Any) -> Parameter:
    kind, info = get_args(hint)
    is_list = kind is not bool and any(getattr(part, "__origin__", None) is list for part in (kind, *get_args(kind)))
    assert isinstance(info, ArgumentInfo | OptionInfo), info
    metavar = "" if kind is bool else str(info.metavar)
    text = (info.help or "").split(";")[0]
    if isinstance(info, ArgumentInfo):
        return Parameter((), metavar, is_list, text)
    # typer takes the first declaration for a default.
    names = tuple(str(name) for name in (info.default, *(info.param_decls or ())) if str(name).startswith("-"))
    return Parameter(names, metavar, is_list, text)
