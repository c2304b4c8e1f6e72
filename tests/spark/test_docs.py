"""Runs docs/spark.md and the README's block as they are, on a server that the page's own command starts.

Only the port, folders and the session are others; pip's line is compared with what pyproject.toml offers.
"""

from __future__ import annotations

import re
import shlex
import socket
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import rowlock
from pyspark.sql import SparkSession

from bench.processes import ServerProcess

ROOT = Path(__file__).parents[2]
PAGE = "docs/spark.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PORT, _FOLDER = "7461", "rowlock-spark"
_README_PORT = "7460"
# Folders of the page.
_ARRIVALS, _WRITTEN = "arrivals/", "written/"
_READY_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its text, and the number of its first line."""

    language: str
    text: str
    line: int


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [Block(found[1], found[2], text[: found.start(2)].count("\n") + 1) for found in _BLOCK.finditer(text)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Reader:
    """Runs the blocks of the pages, with a server on another port; `names` is the namespace of the blocks."""

    port: int
    folder: Path
    names: dict[str, object]

    def run(self, page: str, block: Block) -> None:
        """Runs a Python block; its tracebacks have the page and the line."""
        # Empty lines before it make the line numbers those of the page.
        code = "\n" * (block.line - 1) + re.sub(f"{_PORT}|{_README_PORT}", str(self.port), block.text)
        # Java stays in the folder that it was started in.
        code = re.sub(f'"({_ARRIVALS}|{_WRITTEN})"', lambda name: repr(str(self.folder / name[1])), code)
        exec(compile(code, page, "exec"), self.names)


def server_line() -> str:
    """Returns the page's command without the & at its end."""
    [line] = [
        line
        for block in blocks_of(PAGE)
        for line in block.text.splitlines()
        if block.language == "bash" and line.startswith("rowlock-server ")
    ]
    return line.removesuffix("&").strip()


@pytest.fixture
def reader(tmp_path: Path, spark: SparkSession) -> Iterator[Reader]:
    """While the suite's session is active, `builder.getOrCreate()` returns that one."""
    port = free_port()
    arrivals = tmp_path / _ARRIVALS
    arrivals.mkdir()
    (arrivals / "first.json").write_text('{"id": "B6|0725", "carrier": "B6", "dest": "BQN", "delay": -18}')
    assert _PORT in server_line()
    assert _FOLDER in server_line()
    name, *words = shlex.split(server_line().replace(_PORT, str(port)).replace(_FOLDER, str(tmp_path / "data")))
    name_of_session = spark.conf.get("spark.app.name")
    assert name_of_session is not None
    with ServerProcess(
        [str(Path(sys.executable).parent / name), *words], tmp_path / "server.log", ready_seconds_max=_READY_SECONDS_MAX
    ):
        try:
            yield Reader(port, tmp_path, {})
        finally:
            spark.catalog.dropTempView("flights")  # false where no block has made it
            spark.conf.set("spark.app.name", name_of_session)


def test_every_block_of_the_page_works(reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    # The first one shows where the page leads to.
    first, *others = [block for block in blocks_of(PAGE) if block.language == "python"]
    said = []
    for block in [*others, first]:
        reader.run(PAGE, block)
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
    with rowlock.connect(f"127.0.0.1:{reader.port}") as client:
        features = client.typed_table("features")
        assert features.row("bob") == {"orders": 1, "score": 0.3}
        # The last batch is older.
        assert features.row("alice") == {"orders": 4, "score": 0.7}
        assert client.table("flights").row("AA|1141")[b"info:dest"] == b"MIA"
        assert client.table("flights").row("B6|0725")[b"info:dest"] == b"BQN"


def test_the_readme_s_block_works(reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    [block] = [block for block in blocks_of("README.md") if "pyspark" in block.text]
    reader.run("README.md", block)
    assert "| IAH|      15.5|" in capsys.readouterr().out


def test_the_extras_that_the_page_installs_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [line] = [line for block in blocks_of(PAGE) for line in block.text.splitlines() if line.startswith("pip install")]
    command, comment = line.split("#")
    assert shlex.split(command) == ["pip", "install", "rowlock[spark]"]
    assert {"spark", "java"} <= project["optional-dependencies"].keys()
    assert ",java" in comment
