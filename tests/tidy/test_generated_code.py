"""Generated code is up to date: the protocol's with the .proto files, the exceptions with their table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rowlock_proto.errors import ErrorClass, ErrorRow

from tools.errors import BEGIN, END, fresh_sources, with_generated_parts


def test_the_code_of_the_protocol_is_fresh(root: Path, tmp_path: Path) -> None:
    protos = sorted((root / "proto" / "rowlock_proto" / "v1").glob("*.proto"))
    assert protos
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", f"-I{root / 'proto'}"),
            *(f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")),
            *map(str, protos),
        ],
        check=True,
    )
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*_pb2*") if path.is_file()}
    committed = {
        path.relative_to(root / "proto"): path.read_bytes()
        for path in (root / "proto").rglob("*_pb2*")
        if path.suffix in (".py", ".pyi")
    }
    assert sorted(made) == sorted(committed)
    stale = [str(name) for name, text in made.items() if committed[name] != text]
    assert not stale, f"run 'make proto': {', '.join(stale)}"


def test_the_exceptions_are_fresh(root: Path) -> None:
    stale = [str(path.relative_to(root)) for path, fresh in fresh_sources().items() if path.read_text() != fresh]
    assert not stale, f"run 'make errors': {', '.join(stale)}"


def test_a_row_gives_a_class_and_a_line_of_the_tree_and_a_class_by_hand_is_left_alone() -> None:
    by_hand = 'class RootError(Exception):\n    """Mine."""\n'
    rows = [
        ErrorRow("Root.", client=ErrorClass("RootError", "Exception")),
        ErrorRow("First.", client=ErrorClass("FirstError", "RootError, ValueError")),
        ErrorRow("Below.", client=ErrorClass("BelowError", "FirstError", details="More."), can_retry=True),
        ErrorRow("Last.", client=ErrorClass("LastError", "RootError")),
        ErrorRow("Leaf.", client=ErrorClass("LeafError", "LastError")),
    ]
    tree = {row.client.name: (row.client, row) for row in rows if row.client is not None}
    source = f'"""Errors.\n\nRootError\n└── OldError    gone\n"""\n\n{by_hand}\n\n{BEGIN}stale\n{END}'
    fresh = with_generated_parts(source, tree, [])
    assert fresh == (
        '"""Errors.\n\nRootError\n'
        "├── FirstError                 First (a ValueError)\n"
        "│   └── BelowError             Below\n"
        "└── LastError                  Last\n"
        "    └── LeafError              Leaf\n"
        f'"""\n\n{by_hand}\n\n{BEGIN}\n\n'
        'class FirstError(RootError, ValueError):\n    """First."""\n\n\n'
        'class BelowError(FirstError):\n    """Below.\n\n    More.\n    """\n\n    can_retry = True\n\n\n'
        'class LastError(RootError):\n    """Last."""\n\n\n'
        f'class LeafError(LastError):\n    """Leaf."""\n\n\n{END}'
    )
    assert with_generated_parts(fresh, tree, []) == fresh
