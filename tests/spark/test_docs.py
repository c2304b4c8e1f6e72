"""Runs docs/spark.md, the recipe and the README's block as they are, on a server that the page's own command starts.

Only the port, folders and the session are others; pip's line is compared with what pyproject.toml offers.
"""

from __future__ import annotations

import shlex
import socket
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import rowlock
from pyspark.sql import SparkSession

from bench.processes import ServerProcess
from tests.pages import ADDRESS, ROOT, Paste, block_of, blocks_of

PAGE = "docs/spark.md"
_PORT, _FOLDER = "7461", "rowlock-spark"
# Folders of the page.
_ARRIVALS, _WRITTEN = "arrivals/", "written/"
_READY_SECONDS_MAX = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_line() -> str:
    """Returns the page's command without the & at its end."""
    [line] = [
        line
        for block in blocks_of(PAGE, "bash")
        for line in block.text.splitlines()
        if line.startswith("rowlock-server ")
    ]
    return line.removesuffix("&").strip()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server that the page's command has started."""
    port = free_port()
    assert _PORT in server_line()
    assert _FOLDER in server_line()
    name, *words = shlex.split(server_line().replace(_PORT, str(port)).replace(_FOLDER, str(tmp_path / "data")))
    command = [str(Path(sys.executable).parent / name), *words]
    with ServerProcess(command, tmp_path / "server.log", ready_seconds_max=_READY_SECONDS_MAX):
        yield port


@pytest.fixture
def paste(tmp_path: Path, port: int, spark: SparkSession) -> Iterator[Paste]:
    """While the suite's session is active, `builder.getOrCreate()` returns that one."""
    arrivals = tmp_path / _ARRIVALS
    arrivals.mkdir()
    (arrivals / "first.json").write_text('{"id": "B6|0725", "carrier": "B6", "dest": "BQN", "delay": -18}')
    name_of_session = spark.conf.get("spark.app.name")
    assert name_of_session is not None
    # Java stays in the folder that it was started in.
    folders = {f'"{name}"': repr(str(tmp_path / name)) for name in (_ARRIVALS, _WRITTEN)}
    try:
        with Paste({_PORT: str(port), ADDRESS: f"127.0.0.1:{port}", **folders}) as paste:
            yield paste
    finally:
        spark.catalog.dropTempView("flights")  # false where no block has made it
        spark.conf.set("spark.app.name", name_of_session)


def test_every_block_of_the_page_works(paste: Paste, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for block in blocks_of(PAGE):
        paste.run(block)
        said.append((block, capsys.readouterr().out))

    def said_by(holding: str) -> str:
        [found] = [output for block, output in said if holding in block.text]
        return found

    assert "|     UA|      15.5|" in said_by('agg({"delay": "avg"})')
    assert "row: binary" in said_by("raw.printSchema()")
    assert said_by("raw.printSchema()").count("| IAH|") == 2
    assert "UA|1714" in said_by("united.show()")
    assert "UA|1545" not in said_by("united.show()")
    assert "| MIA|       1|" in said_by("INSERT INTO flights")
    with rowlock.connect(f"127.0.0.1:{port}") as client:
        assert client.table("flights").row("AA|1141")[b"info:dest"] == b"MIA"
        assert client.table("flights").row("B6|0725")[b"info:dest"] == b"BQN"


def test_the_readme_s_block_works(paste: Paste, capsys: pytest.CaptureFixture[str]) -> None:
    paste.run(block_of("README.md", "pyspark"))
    assert "| IAH|      15.5|" in capsys.readouterr().out


def test_the_recipe_of_a_feature_store_works(paste: Paste, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks_of("docs/recipes/feature_store.md"):
        paste.run(block)
    lines = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [[cell.strip() for cell in line] for line in lines[1:]] == [
        ["AA", "1"],
        ["B6", "NULL"],
        ["DL", "NULL"],
        ["UA", "2"],
    ]


def test_the_extras_that_the_page_installs_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [line] = [
        line for block in blocks_of(PAGE, "bash") for line in block.text.splitlines() if line.startswith("pip install")
    ]
    command, comment = line.split("#")
    assert shlex.split(command) == ["pip", "install", "rowlock[server,spark]"]
    assert {"server", "spark", "java"} <= project["optional-dependencies"].keys()
    assert ",java" in comment
