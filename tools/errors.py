"""Writes both exception trees from the table in rowlock_proto/errors.py: `make errors`.

Two parts of each `errors.py` are generated: the tree in the module's docstring, and the classes between the marks BEGIN
and END. The tree shows every class of the table. A class that is defined or imported outside the marks is written by
hand and not generated.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rowlock_proto.errors import ERRORS, ErrorClass, ErrorRow

_ROOT = Path(__file__).resolve().parents[1]
CLIENT = _ROOT / "client" / "rowlock" / "errors.py"
SERVER = _ROOT / "regionserver" / "rowlock_regionserver" / "errors.py"

BEGIN = "# Generated from rowlock_proto/errors.py by `make errors`: edit the table.\n"
END = "# End of the generated part.\n"

_LINE_CHARACTERS_MAX = 120
_NAME_CHARACTERS = 30  # with its branch of the tree

# The classes of one side and their rows, by name, in the order of the table.
Tree = Mapping[str, tuple[ErrorClass, ErrorRow]]


def fresh_sources() -> dict[Path, str]:
    """Returns the text that each `errors.py` should have."""
    client = _tree(lambda row: row.client)
    # `from rowlock.errors import *` makes the client's errors names of the package.
    names = "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(client)) + "]\n"
    return {
        CLIENT: with_generated_parts(CLIENT.read_text(), client, [names]),
        SERVER: with_generated_parts(SERVER.read_text(), _tree(lambda row: row.server), []),
    }


def with_generated_parts(source: str, tree: Tree, first: Sequence[str]) -> str:
    """Returns the source with both parts generated from the tree. `first` comes before the generated classes."""
    head, generated = source.split(BEGIN)
    _, tail = generated.split(END)
    by_hand = {name for part in (head, tail) for node in ast.parse(part).body for name in _names_of(node)}
    root = next(iter(tree))
    made = [*first, *(_class_source(name, tree) for name in tree if name not in by_hand)]
    drawing = "".join(f"{line}\n" for line in [root, *_drawn_below(root, tree)])
    head, count = re.subn(rf"^{root}\n([│├└ ].*\n)*", lambda _: drawing, head, count=1, flags=re.MULTILINE)
    assert count == 1, f"the module's docstring has no line {root}"
    return head + BEGIN + "\n\n" + "\n\n".join(made) + "\n\n" + END + tail


def _names_of(node: ast.stmt) -> list[str]:
    """Returns the names of the classes that a statement defines or imports."""
    if isinstance(node, ast.ImportFrom):
        return [imported.name for imported in node.names]
    return [node.name] if isinstance(node, ast.ClassDef) else []


def _tree(side: Callable[[ErrorRow], ErrorClass | None]) -> Tree:
    return {kind.name: (kind, row) for row in ERRORS if (kind := side(row)) is not None}


def _parent(kind: ErrorClass) -> str:
    return kind.parents.split(", ")[0]


def _drawn_below(above: str, tree: Tree, indent: str = "") -> Iterator[str]:
    children = [name for name, (kind, _) in tree.items() if _parent(kind) == above]
    for name in children:
        kind, row = tree[name]
        branch, below = ("└── ", "    ") if name == children[-1] else ("├── ", "│   ")
        also = "".join(f" (a {builtin})" for builtin in kind.parents.split(", ")[1:])
        summary = (kind.summary or row.summary).removesuffix(".")
        yield f"{indent + branch + name:<{_NAME_CHARACTERS}} {summary}{also}"
        yield from _drawn_below(name, tree, indent + below)


def _class_source(name: str, tree: Tree) -> str:
    kind, row = tree[name]
    docstring = kind.summary or row.summary
    if kind.details:
        docstring += "\n\n" + textwrap.fill(kind.details, _LINE_CHARACTERS_MAX - 4) + "\n"
    body = textwrap.indent(f'"""{docstring}"""\n', "    ")
    if row.can_retry != tree[_parent(kind)][1].can_retry:
        body += f"\n    can_retry = {row.can_retry}\n"
    return f"class {name}({kind.parents}):\n{body}"


if __name__ == "__main__":
    for path, source in fresh_sources().items():
        path.write_text(source)
