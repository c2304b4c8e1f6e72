"""Signatures of public functions and classes as code, for the API reference."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from types import ModuleType

_LINE_CHARACTERS_MAX = 100
# Classes that users make themselves by a constructor that is no dataclass's.
_WITH_CONSTRUCTOR = frozenset({"Mapping", "RowlockServer"})

_STARS: Mapping[int, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}

Described = Callable[..., object] | property


def members_of(owner: type) -> Iterator[tuple[str, Described]]:
    """Yields the public functions and properties of a class: its own in their order, then those of its bases.

    Of an error only its own: the errors above it describe theirs.
    """
    seen = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("rowlock") or (base is not owner and issubclass(base, BaseException)):
            continue
        for name, value in vars(base).items():
            member = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if name.startswith("_") or name in seen or not (inspect.isfunction(member) or isinstance(member, property)):
                continue
            if "for use inside rowlock" in (inspect.getdoc(member) or ""):
                continue
            seen.add(name)
            yield name, member


def class_code(owner: type) -> str:
    """Returns `class Name(Base):` with a dataclass's fields or a public constructor; "" if there is nothing to show."""
    bases = list(_public_bases(owner))
    head = f"class {owner.__name__}" + (f"({', '.join(bases)})" if bases else "")
    if dataclasses.is_dataclass(owner):
        fields = [
            f"    {field.name}: {_text(field.type)}{_default_of(field)}"
            for field in dataclasses.fields(owner)
            if not field.name.startswith("_")
        ]
        return "\n".join([f"{head}:", *fields])
    if owner.__name__ in _WITH_CONSTRUCTOR:
        constructor = typing.cast("Callable[..., object]", vars(owner)["__init__"])
        return f"{head}:\n" + "\n".join(f"    {line}" for line in _signature(constructor).splitlines())
    return f"{head}: ..." if bases else ""


def function_code(described: Described) -> list[str]:
    """Returns the signatures of a function, one for each overload, or of a property."""
    if isinstance(described, property):
        assert described.fget is not None, "every property can be read"
        return ["@property", _signature(described.fget)]
    # contextmanager wraps a generator function; one that is not wrapped is an iterator.
    unwrapped = inspect.unwrap(described)
    is_manager = unwrapped is not described and inspect.isgeneratorfunction(unwrapped)
    decorators = ["@contextmanager"] if is_manager else []
    return [*decorators, *(_signature(each) for each in typing.get_overloads(described) or [described])]


def alias_value(value: object) -> str:
    """Returns what an alias of a type stands for."""
    return str(value).replace("typing.", "")


def docstring_of_alias(name: str, package: ModuleType) -> str:
    """Returns the string below an alias, in the module of the package that sets it."""
    homes = typing.cast("dict[str, str]", vars(package)["_HOMES"])
    source = inspect.getsource(import_module(homes[name]))
    body = ast.parse(source).body
    for statement, following in pairwise(body):
        names = [target.id for target in getattr(statement, "targets", []) if isinstance(target, ast.Name)]
        if name in names and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            return inspect.cleandoc(str(following.value.value))
    raise LookupError(f"the alias {name} has no docstring in {homes[name]}")


def _public_bases(owner: type) -> Iterator[str]:
    """Yields the base classes that say something to a reader; in place of a private one, its own."""
    for base in owner.__bases__:
        if base.__name__.startswith("_"):
            yield from _public_bases(base)
        elif base.__name__.endswith("Error") or (base.__module__ == "builtins" and base is not object):
            yield base.__name__


def _signature(function: Callable[..., object]) -> str:
    """Returns `def name(...) -> result: ...`, on one line or with a line for each parameter."""
    signature = inspect.signature(function)
    parameters = list(_parameters(signature))
    result = _text(signature.return_annotation)
    line = f"def {function.__name__}({', '.join(parameters)}) -> {result}: ..."
    if len(line) <= _LINE_CHARACTERS_MAX:
        return line
    listed = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"def {function.__name__}(\n{listed}) -> {result}: ..."


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Yields the parameters as they are written, with `*` where it belongs, and without self."""
    last = None
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and last not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
            yield "*"
        last = parameter.kind
        text = _STARS.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {_text(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_value(parameter.default)}"
        yield text


def _text(annotation: object) -> str:
    """Returns an annotation as it is written in the source."""
    if isinstance(annotation, str):
        return annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _default_of(field: dataclasses.Field[typing.Any]) -> str:
    """Returns ` = default` of a field, or nothing if it must be given."""
    if field.default is not dataclasses.MISSING:
        return f" = {_value(field.default)}"
    if field.default_factory is not dataclasses.MISSING:
        return f" = {_value(field.default_factory())}"
    return ""


def _value(default: object) -> str:
    """Returns a default as it would be written."""
    return default.__name__ if isinstance(default, type) else repr(default)
