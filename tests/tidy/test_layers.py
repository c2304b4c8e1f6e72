"""Imports go one way inside the region server and inside the client; client and server never import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
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
            "process_limits",
            "system_errors",
            "signals",
            "files",
            "durable_files",
            "unneeded_files",
            "operations",
            "few_rows",
            "row_line",
            "row_puts",
            "found_cells",
            "row_groups",
            "row_ranges",
            "table",
            "generations",
            "data_folder",
            "ownership",
            "embedded",
            "ledger",
            "memory_limit",
            "log_lines",
            "memory_plan",
            "settings",
            "resident",
        }
    ),
    frozenset({"arrow"}),
    frozenset({"sources"}),
    frozenset({"versions"}),
    frozenset({"wal", "memstore", "storefile", "scan"}),
    frozenset({"commit", "catalog", "sessions", "procedures"}),
    frozenset({"locks"}),
    frozenset({"region", "compaction"}),
    frozenset({"host"}),
    frozenset({"engine"}),
    frozenset({"rpc", "inspection"}),
    frozenset({"server", "__main__"}),
    frozenset({"start"}),
)
_SERVER = "rowlock_regionserver"
# The client's, from the ground up. A module of rowlock.aio is in the layer of its namesake without `aio`.
_CLIENT_LAYERS: Sequence[frozenset[str]] = (
    frozenset({"_rowlock_error", "_partial_errors", "_uninterrupted", "errors"}),
    # Values, and their encodings.
    frozenset(
        {
            "_codec",
            "bulk_outcome",
            "changes",
            "checks",
            "compactions",
            "counters",
            "filters",
            "mapping",
            "named_snapshot",
            "region_info",
            "schema",
            "selection",
            "session_info",
            "statistics",
            "status",
            "typed_checks",
        }
    ),
    frozenset({"_core"}),
    frozenset({"rows", "split_plan"}),
    frozenset({"_transport"}),
    frozenset(
        {
            *("_change_calls", "_region_calls", "_session_calls", "_snapshot_calls", "_tables", "_unfinished", "aio"),
            *("_ending_call", "_locked_call", "batch", "bulk_write", "change_feed", "client"),
            *("connecting", "lock", "scan", "session", "snapshot", "table", "typed_batch", "typed_bulk_write"),
            *("typed_scan", "typed_table"),
        }
    ),
    frozenset({"cli", "spark", "pytest_plugin"}),
    frozenset({"__main__"}),
)
_CLIENT = "rowlock"
# Modules that decide or encode do no I/O. wire_errors reads the errors that grpc raises, and makes no calls.
_WITHOUT_IO = ("_core", "_codec")
_IO = {"asyncio", "grpc", "socket", "subprocess"}
_IO_ALLOWED = {("_codec/wire_errors.py", "grpc")}
# The parts that may import the protocol's code: messages stop at the edge.
_EDGE_OF_SERVER = {"rpc", "server"}
# Modules of the protocol that have no code of it.
_WITHOUT_MESSAGES = tuple(
    f"rowlock_proto.{name}" for name in ("nearest", "prefixes", "server_modules", "shown_names", "standard_streams")
)


def imports_of(source: str, package: str) -> Iterator[str]:
    """Yields every module that the source imports, absolute; `package` resolves relative imports. Type-only too."""
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


def layer_of(part: str, layers: Sequence[frozenset[str]] = _LAYERS) -> int | None:
    """Returns the layer of a part of a package, from 0; None if no layer names it."""
    return next((number for number, parts in enumerate(layers) if part in parts), None)


def upward_imports(part: str, source: str, package: str) -> list[str]:
    """Returns the imports of a module of the region server's `part` from above its layer."""
    return _upward(part, source, package, _SERVER, _LAYERS)


def _upward(part: str, source: str, package: str, top: str, layers: Sequence[frozenset[str]]) -> list[str]:
    own = layer_of(part, layers)
    assert own is not None, f"{part} is in no layer: add it in {Path(__file__).name}"
    found = []
    for name in imports_of(source, package):
        parts = name.split(".")
        if parts[0] != top or len(parts) == 1:
            continue
        other = layer_of(_part(tuple(parts[1:])), layers)
        if other is not None and other > own:
            found.append(name)
    return found


def _part(parts: tuple[str, ...]) -> str:
    """Returns the name of a module in the layers: the first part of its path, or the second below `aio`."""
    return parts[1] if parts[0] == "aio" and len(parts) > 1 and parts[1] != "__init__" else parts[0]


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


def test_layers_of_the_client_go_one_way(root: Path, python_files: Sequence[Path]) -> None:
    wrong = []
    modules = list(_modules(python_files, root / "client" / _CLIENT))
    assert len(modules) > 60, "the client was not found"
    for path, parts in modules:
        if parts == ("__init__",):
            continue
        package = ".".join((_CLIENT, *parts[:-1]))
        for name in _upward(_part(parts), path.read_text(), package, _CLIENT, _CLIENT_LAYERS):
            wrong.append(f"{path.relative_to(root)} imports {name} from a layer above")
    assert not wrong, "\n".join(wrong)


def test_the_client_decides_and_encodes_without_io(root: Path, python_files: Sequence[Path]) -> None:
    folder = root / "client" / _CLIENT
    wrong = []
    for path, parts in _modules(python_files, folder):
        if parts[0] not in _WITHOUT_IO:
            continue
        where = path.relative_to(folder).as_posix()
        for name in {name.split(".")[0] for name in imports_of(path.read_text(), "")} & _IO:
            if (where, name) not in _IO_ALLOWED:
                wrong.append(f"{where} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_only_modules_with_public_names_are_at_the_top_of_the_client(root: Path, python_files: Sequence[Path]) -> None:
    """Users import from `rowlock`; any other module at the top would look public, but for an underscore."""
    folder = root / "client" / _CLIENT
    at_the_top = {
        path.stem
        for path, parts in _modules(python_files, folder)
        if len(parts) == 1 and (parts[0][0] != "_" or parts[0][:2] == "__")
    }
    public = {
        module.split(".")[1] for module in imports_of((folder / "__init__.py").read_text(), _CLIENT) if "." in module
    }
    assert at_the_top - public <= {"__init__", "__main__", "pytest_plugin"}


def test_messages_of_the_protocol_stop_at_the_edge_of_the_region_server(
    root: Path, python_files: Sequence[Path]
) -> None:
    wrong = []
    for path, parts in _modules(python_files, root / "regionserver" / _SERVER):
        if parts[0] in _EDGE_OF_SERVER:
            continue
        for name in imports_of(path.read_text(), ""):
            if name.split(".")[0] in ("rowlock_proto", "google", "grpc") and not name.startswith(_WITHOUT_MESSAGES):
                wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_admission_loads_neither_protobuf_nor_grpc() -> None:
    """Not indirectly either, so that a front end without them can use it."""
    loaded = subprocess.run(
        (
            sys.executable,
            "-c",
            f"import sys, {_SERVER}.engine.points, {_SERVER}.engine.coalesced_changes; print(*sys.modules)",
        ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert f"{_SERVER}.engine.points" in loaded
    others = set(loaded) - {"rowlock_proto", *_WITHOUT_MESSAGES}
    assert {name.split(".")[0] for name in others}.isdisjoint({"rowlock_proto", "google", "grpc"})


def test_client_and_server_never_import_each_other(root: Path, python_files: Sequence[Path]) -> None:
    forbidden = {
        root / "client": {_SERVER},
        root / "regionserver": {"rowlock", "pyspark_rowlock", "rowlock_command"},
        root / "proto": {"rowlock", "pyspark_rowlock", "rowlock_command", _SERVER},
    }
    wrong = []
    for folder, names in forbidden.items():
        for path, _ in _modules(python_files, folder):
            for name in imports_of(path.read_text(), ""):
                if name.split(".")[0] in names:
                    wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_shipped_code_never_imports_tests_bench_or_tools(root: Path, python_files: Sequence[Path]) -> None:
    wrong = []
    for folder in ("client", "regionserver", "proto"):
        for path, _ in _modules(python_files, root / folder):
            for name in imports_of(path.read_text(), ""):
                if name.split(".")[0] in ("tests", "bench", "tools", "hypothesis"):
                    wrong.append(f"{path.relative_to(root)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_an_import_from_above_is_found_in_each_spelling() -> None:
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
