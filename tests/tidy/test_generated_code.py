"""What is generated is up to date: the protocol's code, the exceptions, the client's sync face, two pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rowlock_proto.errors import ErrorClass, ErrorRow

from tools import async_to_sync
from tools.errors import BEGIN, END, fresh_sources, with_generated_parts
from tools.sync_passages import PASSAGES


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


def test_a_row_becomes_a_class_and_a_line_of_the_tree_and_a_class_by_hand_stays() -> None:
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


def test_the_sync_face_is_fresh(root: Path) -> None:
    command = [sys.executable, "-m", "tools.async_to_sync", "--check"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("tool", ["tools.api", "tools.settings", "tools.commands"])
def test_a_generated_page_is_fresh(root: Path, tool: str) -> None:
    ran = subprocess.run([sys.executable, "-m", tool, "--check"], cwd=root, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_stale_face_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        root / "client" / "rowlock" / "aio" / "batch.py",
        root / "client" / "rowlock" / "table.py",
        PASSAGES["batch.py"],
    )
    monkeypatch.setattr(async_to_sync, "pairs", lambda: [face])
    assert async_to_sync.main(["--check"]) == 1
    assert capsys.readouterr().err == "stale: client/rowlock/table.py; run 'make faces'\n"


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
def test_asyncio_tokens_become_sync_tokens(awaited: str, blocking: str) -> None:
    assert async_to_sync.to_sync(awaited, {}) == blocking


def test_a_passage_that_occurs_never_or_twice_is_an_error() -> None:
    for source in ("", "a a"):
        with pytest.raises(SystemExit, match="not once"):
            async_to_sync.to_sync(source, {"a": "b"})
