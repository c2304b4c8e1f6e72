"""Where a broken build changes the code: a passage in a definition that is looked up by its name.

The name is qualified (`WritePath.change`, `Stamps.next`, `_RESERVATION_BYTES`) and looked up over the whole package, so
that a module may move to another folder. The passage is compared without regard to where lines are wrapped, so that a
formatter may wrap them elsewhere. If several definitions have the name, exactly one of them must have the passage.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, a class, or an assignment to a name outside of functions."""

    module: Path  # relative to the package
    source: str  # of the whole module
    start: int  # the definition is source[start:stop], decorators included
    stop: int


Definitions = Mapping[str, Sequence[Definition]]


def definitions_in(package: Path) -> Definitions:
    """Returns all definitions of a package, by their qualified names."""
    found: dict[str, list[Definition]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        source = path.read_text()
        lines = source.splitlines(keepends=True)
        for name, first, last in _named(ast.parse(source), ""):
            start = sum(map(len, lines[: first - 1]))
            stop = start + sum(map(len, lines[first - 1 : last]))
            found[name].append(Definition(path.relative_to(package), source, start, stop))
    return found


def changed_module(definitions: Definitions, where: str, passage: str, replacement: str) -> tuple[Path, str]:
    """Returns the module with the passage, and its source with the replacement. AssertionError: not exactly one."""
    pattern = _with_any_wrapping(passage)
    places = [
        (definition, match.span())
        for definition in definitions.get(where, ())
        for match in pattern.finditer(definition.source, definition.start, definition.stop)
    ]
    assert where in definitions, f"nothing in the package is called {where}"
    modules = ", ".join(str(definition.module) for definition in definitions[where])
    assert len(places) == 1, f"{where} ({modules}) has the passage {len(places)} times:\n{passage}"
    ((definition, (start, stop)),) = places
    return definition.module, definition.source[:start] + replacement + definition.source[stop:]


def _named(parent: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Yields the definitions inside, with their first and last lines."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + node.name
            first = min(part.lineno for part in (node, *node.decorator_list))
            yield name, first, node.end_lineno or first
            yield from _named(node, f"{name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(parent, ast.Module | ast.ClassDef):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node.lineno, node.end_lineno or node.lineno
        else:
            yield from _named(node, prefix)


def _with_any_wrapping(passage: str) -> re.Pattern[str]:
    """Matches the passage with any white space between its words and signs.

    White space at its two ends must match exactly, because the replacement has the same.
    """
    inside = passage.strip()
    signs = re.findall(r"\w+|[^\w\s]", re.sub(r",(\s*[)\]}])", r"\1", inside))
    parts = []
    for before, sign in zip(["", *signs], signs, strict=False):
        if before:
            parts.append(r"\s+" if _is_word(before) and _is_word(sign) else r"\s*")
        if sign in ")]}":
            parts.append(r",?\s*")
        parts.append(re.escape(sign))
    head, tail = passage.split(inside)
    return re.compile(re.escape(head) + "".join(parts) + re.escape(tail))


def _is_word(sign: str) -> bool:
    return sign[-1:].isalnum() or sign[-1:] == "_"
