"""`pip install rowlock` brings all that a client needs, and says in one sentence what the server needs beside it.

The environment has the built wheel and the distributions that its metadata names without an extra, with theirs.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rowlock.pytest_plugin import RowlockServer
from rowlock_proto.server_modules import SERVER_MODULES

from tests.waiting import WAIT_S

_SENTENCE = re.compile(
    r"this Python has no google_crc32c, grpc_health, grpc_reflection, lmdb, sortedcontainers, xxhash, which only the "
    r"server needs; run pip install 'rowlock\[server\]'$",
    re.MULTILINE,
)


def _with_their_needs(requirements: Iterable[str]) -> dict[str, set[str]]:
    """Returns the names of the distributions that these requirements bring here, and the extras of each."""
    found: dict[str, set[str]] = {}
    todo = [Requirement(text) for text in requirements]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras} - found.get(name, set())
        if not extras:
            continue
        found.setdefault(name, set()).update(extras)
        for text in distribution(name).requires or ():
            need = Requirement(text)
            if any(need.marker is None or need.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(need)
    return found


@pytest.fixture(scope="module")
def client_python(root: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, its own requirements, and pytest."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for name in _with_their_needs([*project["dependencies"], "pytest"]):
        for file in distribution(name).files or ():
            if ".." not in file.parts:
                link = packages / file
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(str(file.locate())))
    return folder / "bin" / "python"


def _ran(python: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run(
        [python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def _modules_of(requirements: Iterable[str]) -> Iterator[str]:
    for text in requirements:
        files = distribution(Requirement(text).name).files or ()
        yield from {
            file.parts[0].partition(".")[0]
            for file in files
            if not file.parts[0].endswith((".dist-info", ".data", ".libs", "..")) and file.parts[0] != "__pycache__"
        }


def test_the_list_of_the_server_s_modules_is_that_of_the_extra(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    modules = {name for name in _modules_of(project["optional-dependencies"]["server"]) if not name.startswith("_")}
    assert modules == set(SERVER_MODULES)


def test_a_client_without_the_server_reads_and_writes_every_face(
    client_python: Path, rowlock_server: RowlockServer, tmp_path: Path
) -> None:
    code = f"""
import asyncio, pyarrow, rowlock, rowlock.aio, rowlock.spark, rowlock.cli.main, rowlock.cli.shell, pyspark_rowlock
for name in rowlock.__all__:
    getattr(rowlock, name)
with rowlock.connect({rowlock_server.address!r}) as db:
    t = db.create_table("light", mapping="id STRING :key, n BIGINT f:n")
    t.put_arrow(pyarrow.table({{"id": ["a", "b"], "n": [1, 2]}}))
    assert t.increment("a", "n") == 2
    assert t.scan().to_arrow().to_pydict() == {{"id": ["a", "b"], "n": [2, 2]}}
async def read():
    async with rowlock.aio.connect({rowlock_server.address!r}) as db:
        return await (await db.typed_table("light")).row("a")
assert asyncio.run(read()) == {{"n": 2}}
assert rowlock.cli.main.main(["--server", {rowlock_server.address!r}, "get", "light", "a"]) == 0
with rowlock.connect({rowlock_server.address!r}) as db:
    db.drop_table("light")
"""
    ran = _ran(client_python, "-W", "error", "-c", code, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "a\t2\n"


def test_open_without_the_server_says_what_to_install(client_python: Path, tmp_path: Path) -> None:
    code = (
        "import rowlock\ntry:\n    rowlock.open('data')\nexcept rowlock.EmbeddedServerError as error:\n    print(error)"
    )
    ran = _ran(client_python, "-c", code, folder=tmp_path)
    assert ran.stdout.startswith("rowlock.open starts a server on data, and "), ran.stderr
    assert _SENTENCE.search(ran.stdout)
    assert ran.stdout.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("words", [["--data", "data"], ["verify", "data"], ["salvage", "data", "out"]])
def test_the_server_s_command_says_what_to_install(client_python: Path, tmp_path: Path, words: list[str]) -> None:
    ran = _ran(client_python, "-m", "rowlock_regionserver", *words, folder=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.startswith("rowlock-server: can't start: ")
    assert _SENTENCE.search(ran.stderr)
    assert ran.stderr.count("\n") == 1


def test_the_fixtures_say_what_to_install(client_python: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(rowlock_client):\n    pass\n")
    ran = _ran(client_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "ImportError: rowlock's fixtures start a server, and " in ran.stdout
    assert _SENTENCE.search(ran.stdout)
