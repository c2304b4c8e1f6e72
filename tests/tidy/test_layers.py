"""Imports go one way: inside the region server, and between client and server not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

# From the ground up; a module may import from its own layer and from those before it.
_LAYERS: Sequence[frozenset[str]] = (
    frozenset(
        {
            "cells",
            "errors",
            "config",
            "clock",
            "process",
            "signals",
            "files",
            "operations",
            "sources",
            "table",
            "generations",
            "data_folder",
            "ownership",
            "embedded",
            "ledger",
            "memory_limit",
            "memory_plan",
            "resident",
        }
    ),
    frozenset({"arrow"}),
    frozenset({"versions"}),
    frozenset({"wal", "memstore", "storefile", "scan"}),
    frozenset({"commit", "catalog"}),
    frozenset({"region", "compaction"}),
    frozenset({"host"}),
    frozenset({"rpc", "inspection"}),
    frozenset({"server", "__main__"}),
)
_SERVER = "rowlock_regionserver"
# Messages stop at the edge: who may import the protocol's code.
_EDGE_OF_SERVER = {"rpc", "server"}


def imports_of(source: str, package: str) -> Iterator[str]:
    """Every module that the source imports, absolute; `package` resolves relative imports. Type-only ones count too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            # `from package import module` names a module too; a mere name is harmless.
            for alias in node.names:
                yield f"{module}.{alias.name}"


def layer_of(part: str) -> int | None:
    """Which layer a part of the region server belongs to, from 0; None when no layer names it."""
    return next((number for number, parts in enumerate(_LAYERS) if part in parts), None)


def upward_imports(part: str, source: str, package: str) -> list[str]:
    """What a module of the region server's `part` imports from above its layer."""
    own = layer_of(part)
    assert own is not None, f"{part} is in no layer: add it to _LAYERS in {Path(__file__).name}"
    found = []
    for name in imports_of(source, package):
        parts = name.split(".")
        if parts[0] != _SERVER or len(parts) == 1:
            continue
        other = layer_of(parts[1])
        if other is not None and other > own:
            found.append(name)
    return found


def _modules(files: Sequence[Path], folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for path in files:
        if path.is_relative_to(folder):
            yield path, path.relative_to(folder).with_suffix("").parts


def test_layers_of_the_region_server_go_one_way(root: Path, python_files: Sequence[Path]) -> None:
    folder = root / "regionserver" / _SERVER
    wrong = []
    modules = list(_modules(python_files, folder))
    assert len(modules) > 7, "the region server was not found"
    for path, parts in modules:
        if parts == ("__init__",):
            continue
        package = ".".join((_SERVER, *parts[:-1]))
        for name in upward_imports(parts[0], path.read_text(), package):
            wrong.append(f"{path.relative_to(root)} imports {name} from a layer above")
    assert not wrong, "\n".join(wrong)


def test_messages_of_the_protocol_stop_at_the_edge_of_the_region_server(
    root: Path, python_files: Sequence[Path]
) -> None:
    wrong = []
    for path, parts in _modules(python_files, root / "regionserver" / _SERVER):
        if parts[0] in _EDGE_OF_SERVER:
            continue
        for name in imports_of(path.read_text(), ""):
            if name.split(".")[0] in ("rowlock_proto", "google", "grpc"):
                wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_client_and_server_never_import_each_other(root: Path, python_files: Sequence[Path]) -> None:
    forbidden = {
        root / "client": {_SERVER},
        root / "regionserver": {"rowlock", "pyspark_rowlock"},
        root / "proto": {"rowlock", "pyspark_rowlock", _SERVER},
    }
    wrong = []
    for folder, names in forbidden.items():
        for path, _ in _modules(python_files, folder):
            for name in imports_of(path.read_text(), ""):
                if name.split(".")[0] in names:
                    wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_shipped_code_never_imports_tests_or_bench(root: Path, python_files: Sequence[Path]) -> None:
    wrong = []
    for folder in ("client", "regionserver", "proto"):
        for path, _ in _modules(python_files, root / folder):
            for name in imports_of(path.read_text(), ""):
                if name.split(".")[0] in ("tests", "bench", "hypothesis"):
                    wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_an_import_from_above_is_found_in_each_of_its_spellings() -> None:
    package = f"{_SERVER}.wal"
    for source in (
        f"import {_SERVER}.region.mvcc",
        f"from {_SERVER}.region import mvcc",
        f"from {_SERVER} import region",
        "from ..region.mvcc import ReadPoint",
        "from .. import region",
        f"def f():\n    from {_SERVER}.region.mvcc import ReadPoint",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import {_SERVER}.region",
    ):
        assert upward_imports("wal", source, package), source


def test_an_import_from_the_own_layer_or_below_is_allowed() -> None:
    source = (
        f"from {_SERVER}.cells import Cell\nfrom . import record\nfrom {_SERVER}.storefile import format\nimport os"
    )
    assert not upward_imports("wal", source, f"{_SERVER}.wal")
