"""The protocol's generated code is what the .proto files give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_generated_code_is_fresh(root: Path, tmp_path: Path) -> None:
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
