"""Writes docs/api.md, the API reference, from the docstrings of the public names: `make api`.

    python -m tools.api           # writes the page
    python -m tools.api --check   # exits 1 if the page is stale

It is a tool of ours because rowlock's public names are made at their first use and their methods come from private base
classes. griffe2md, which makes Markdown too, describes each private module of the package as well, in 700 KB. This one
asks Python itself: `__all__` for the names, `inspect` for signatures and docstrings.

A docstring becomes Markdown as it is, with two exceptions: a paragraph that describes arguments becomes a list of them,
and an indented example becomes a block of code.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args

import rowlock
import rowlock.aio
import rowlock.errors
import rowlock.pytest_plugin
import rowlock.spark

from tools import generated_page
from tools.api_signatures import alias_value, class_code, docstring_of_alias, function_code, members_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
_MADE = "<!-- Made from the docstrings by tools/api.py: change those, then `make api`. -->"
_FIXTURES = ("rowlock_server", "rowlock_client")
_LIST_ITEM = re.compile(r"[a-z_]+(, [a-z_]+)*: ")
# The blank between two items of a paragraph, which may be anywhere in a line.
_BETWEEN_ITEMS = re.compile(r"(?<=\.) (?=[a-z_]+(?:, [a-z_]+)*: )")
_WIDTH = 115
# Types of few values, with their modules.
_LITERALS = {
    "CompareOp": "rowlock.checks",
    "CompactionKind": "rowlock.compactions",
    "CompactionState": "rowlock.compactions",
    "Compression": "rowlock.schema",
    "HeldKind": "rowlock.session_info",
    "LockMode": "rowlock.session_info",
    "RegionState": "rowlock.region_info",
    "SessionState": "rowlock.session_info",
}

_INTRODUCTION = """
All public names, with their docstrings, which `help()` shows too. [client.md](client.md) and
[recipes](recipes/README.md) show how they are used together. A name that is not on this page may change without notice.

| in signatures | what it is |
| --- | --- |
| `Name` | `bytes` or `str`: a row's key, or a column as `family:qualifier`; `str` is encoded as UTF-8 |
| `Value` | `bytes`, `bytearray`, `memoryview` or `str` |
| `Text` | what a table returns: `bytes`, or `str` if it was opened with an encoding |
| `Data`, `Data[ColumnName]` | `{column: value}`, with columns all `bytes` or all `str` |
| `Key` | of a typed table: the value of its key, or a tuple of the key's parts |
| `Row`, `TypedData` | of a typed table: `{name: value}`, or your `TypedDict` |
| `Change` | [Put](#put), [Delete](#delete), [Increment](#increment) or [Append](#append) |
| `TimeRange` | `(start, stop)` in milliseconds, half-open; `None` leaves an end open |
| `ArrowInput` | an Arrow table, batch or reader, an iterable of batches, or a pandas DataFrame |
| `RowMapping` | [Mapping](#mapping) |
| `RowRange` | `(start, stop)`, keys as `bytes`, half-open; an empty bound is open |
| `TypedValue` | of a column of bytes a `Value`; of a typed one a value of its type; `None`: absent |
| `ValueType` | `bytes`, `str`, `int`, `float`, `bool`, or the name of a type of a Mapping |
| `Operand` | a `Value`, `int`, `float` or `bool` |
| `DecodeCell` | a function from `family:qualifier` and a cell's bytes to its value |
| `OpenedSession` | [Session](#session), of this module or of `rowlock.aio` |
| `TakenSnapshot` | [Snapshot](#snapshot), of this module or of `rowlock.aio` |
"""
_AIO = """
`rowlock.aio` has the same classes and functions, with the same names, arguments and results. Calls that talk to a
server are awaited, scans are read with `async for`, and clients, batches, sessions, locks and snapshots are entered
with `async with`. All other names, such as `rowlock.Family` and the errors, are those of `rowlock`.
"""
_FIXTURES_INTRODUCTION = """
Installing rowlock registers two fixtures. The server needs `rowlock[server]`.
"""


def page() -> str:
    """Returns the text that docs/api.md should have."""
    errors = set(rowlock.errors.__all__)
    names = [name for name in rowlock.__all__ if name not in errors and name != "aio"]
    functions = sorted(name for name in names if inspect.isfunction(getattr(rowlock, name)))
    others = sorted(name for name in names if name not in functions)
    sections = [
        ("rowlock", "", [*functions, *others], rowlock),
        ("Errors", _errors_introduction(), sorted(errors), rowlock),
        ("rowlock.aio", _AIO, (), rowlock.aio),
        ("rowlock.spark", markdown(inspect.getdoc(rowlock.spark) or ""), sorted(rowlock.spark.__all__), rowlock.spark),
    ]
    parts = ["# API reference", _MADE, _INTRODUCTION.rstrip() + "\n" + "\n".join(_literals())]
    for title, introduction, public, module in sections:
        parts += [f"## {title}", introduction, _contents(public)]
        parts += [part for name in public for part in _described(name, module)]
        if module is rowlock.aio:
            parts.append(", ".join(f"`{name}`" for name in rowlock.aio.__all__) + ".")
    parts += ["## Fixtures for pytest", _FIXTURES_INTRODUCTION]
    parts += [part for name in _FIXTURES for part in _fixture(name)]
    parts += _described("RowlockServer", rowlock.pytest_plugin)
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def _literals() -> Iterator[str]:
    """Yields a line of the introduction's table for each type that has few values."""
    for name, module in _LITERALS.items():
        values = ", ".join(f'`"{value}"`' for value in get_args(getattr(import_module(module), name)))
        yield f"| `{name}` | one of {values} |"


def markdown(docstring: str) -> str:
    """Returns a docstring, without its indentation, as Markdown."""
    return "\n\n".join(_paragraph(text) for text in re.split(r"\n\s*\n", docstring) if text.strip())


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if all(line.startswith("    ") for line in lines):
        return f"```python\n{textwrap.dedent(text)}\n```"
    if not _LIST_ITEM.match(text):
        return "\n".join(line.strip() for line in lines)
    whole = " ".join(line.strip() for line in lines)
    return "\n".join(
        textwrap.fill(item, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for item in _BETWEEN_ITEMS.split(whole)
    )


def _errors_introduction() -> str:
    """Returns the description of the module of errors, with its tree as a block of text."""
    tree, description = (inspect.getdoc(rowlock.errors) or "").split("\n\n", 1)[1].split("\n\n", 1)
    return f"```text\n{tree}\n```\n\n{markdown(description)}"


def _contents(names: Sequence[str]) -> str:
    """Returns links to the headings of the names."""
    return ", ".join(f"[{name}](#{name.lower()})" for name in names)


def _described(name: str, module: ModuleType) -> Iterator[str]:
    """Yields the heading of a public name, its code and its description, then those of its members."""
    value = getattr(module, name)
    yield f"### {name}"
    if inspect.isfunction(value):
        yield _code(function_code(value))
        yield markdown(inspect.getdoc(value) or "")
    elif inspect.isclass(value):
        if class_code(value):
            yield _code([class_code(value)])
        yield markdown(inspect.getdoc(value) or "")
        for member, described in members_of(value):
            yield f"#### {name}.{member}"
            yield _code(function_code(described))
            yield markdown(inspect.getdoc(described) or "")
    else:
        yield _code([f"{name} = {alias_value(value)}"])
        yield markdown(docstring_of_alias(name, module))


def _fixture(name: str) -> Iterator[str]:
    yield f"### {name}"
    yield markdown(inspect.getdoc(getattr(rowlock.pytest_plugin, name)) or "")


def _code(parts: Iterable[str]) -> str:
    return "```python\n" + "\n".join(parts) + "\n```"


def main(given: Sequence[str]) -> int:
    """Runs the command. Returns the exit code."""
    description = "Writes docs/api.md from the docstrings."
    return generated_page.run(given, PAGE, page(), program="python -m tools.api", description=description)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
