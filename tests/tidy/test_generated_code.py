"""Generated code is what its sources give: the protocol's, and the sync face of the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import async_to_sync
from tools.sync_passages import PASSAGES


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


def test_the_sync_face_is_what_the_asyncio_face_gives(root: Path) -> None:
    command = [sys.executable, "-m", "tools.async_to_sync", "--check"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_stale_face_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        root / "client" / "rowlock" / "aio" / "batch.py",
        root / "client" / "rowlock" / "table.py",
        PASSAGES["batch.py"],
    )
    monkeypatch.setattr(async_to_sync, "pairs", lambda: [face])
    assert async_to_sync.main(["--check"]) == 1
    assert capsys.readouterr().err == "run 'make faces': stale are client/rowlock/table.py\n"


@pytest.mark.parametrize(
    ("awaited", "blocking"),
    [
        ("async def f():\n    await g()  # why\n", "def f():\n    g()  # why\n"),
        ("x = (await f(a)).b[(await g())[0]]\n", "x = f(a).b[g()[0]]\n"),
        ("x = (await f() or y).z\n", "x = (f() or y).z\n"),
        ("x = (await f(), 1)[0]\n", "x = (f(), 1)[0]\n"),
        ("x = await asyncio.to_thread(f), 1\n", "x = f(), 1\n"),
        ("x = (await f(), 1)\n", "x = (f(), 1)\n"),
        ("await asyncio.sleep(1)\n", "time.sleep(1)\n"),
        ("x = await asyncio.to_thread(f.g, h(1, 2), 3)\n", "x = f.g(h(1, 2), 3)\n"),
        ("x = await asyncio.to_thread(f)\n", "x = f()\n"),
        ("return MakingSnapshot(lambda: f(a, (b)))\n", "return f(a, (b))\n"),
        (
            "async with a as b, c:\n    async for d in b:\n        pass\n",
            "with a as b, c:\n    for d in b:\n        pass\n",
        ),
        ("x = (await f(f'({a}', '('))[0]\n", "x = f(f'({a}', '(')[0]\n"),
        ("from rowlock.aio.scan import Scan\n", "from rowlock.scan import Scan\n"),
        ("except grpc.aio.AioRpcError as e:\n", "except grpc.RpcError as e:\n"),
        ("# as `async with f()`, in asyncio's words\n", "# as `with f()`, in asyncio's words\n"),
    ],
)
def test_tokens_become_what_the_generator_says(awaited: str, blocking: str) -> None:
    assert async_to_sync.to_sync(awaited, {}) == blocking


def test_a_passage_that_is_gone_or_there_twice_is_an_error() -> None:
    for source in ("", "a a"):
        with pytest.raises(SystemExit, match="not once"):
            async_to_sync.to_sync(source, {"a": "b"})
