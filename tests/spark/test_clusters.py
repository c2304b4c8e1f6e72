"""Each way of docs/spark.md to install rowlock on executors, and the report of `check`."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import threading
import venv
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
import rowlock
import rowlock.spark
from rowlock.pytest_plugin import RowlockServer
from rowlock.spark.probe import PACKAGES

from tests.drawn_cases import drawn
from tests.spark.session import retried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 500.0
# Where the source tree has what a wheel has.
_PACKAGES = {"rowlock": "client", "pyspark_rowlock": "client", "rowlock_proto": "proto"}


@pytest.fixture
def server(rowlock_server: RowlockServer) -> Iterator[str]:
    with rowlock.connect(rowlock_server.address) as client:
        client.create_table("shipped", ["f"])
        yield rowlock_server.address
        client.drop_table("shipped")


def _environment(folder: Path, *, has_rowlock: bool) -> Path:
    """Makes an environment of links to this one's packages, with rowlock only if it is wanted."""
    venv.create(folder, with_pip=False, symlinks=True)
    inside = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    paths = [sysconfig.get_path("purelib")]
    if has_rowlock:
        paths += sorted({str(ROOT / source) for source in _PACKAGES.values()})
    Path(inside, "paths.pth").write_text("\n".join(paths))
    return folder


def _zip(folder: Path) -> Path:
    """Packs rowlock into one file, like its wheel."""
    packed = folder / "rowlock.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for package, source in _PACKAGES.items():
            for module in sorted((ROOT / source / package).rglob("*.py")):
                file.write(module, module.relative_to(ROOT / source))
    return packed


def _run(folder: Path, python: Path | str, master: str, server: str, *words: str, workers: str = "") -> Any:
    """Runs the program in that folder with that Python. Returns its output."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_", "PYTHONPATH"))
    }
    environment = {**inherited, "PYTHONPATH": str(ROOT)}
    if workers:
        environment["PYSPARK_PYTHON"] = workers
    command = [str(python), str(ROOT / "tests/spark/cluster_program.py"), master, server, str(folder), *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if "application" in found:
        # Where a cluster of this machine puts the folders of its executors, whatever the settings say.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / found["application"], ignore_errors=True)
    return found


def _archived_environment(tmp_path: Path, server: str) -> None:
    """It runs on the executors, and beside the driver."""
    environment = _environment(tmp_path / "environment", has_rowlock=True)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(environment, arcname=".")
    found = retried(
        lambda: _run(
            tmp_path,
            environment / "bin" / "python",
            "local-cluster[2,1,1024]",
            server,
            f"archive={archive}#environment",
            workers="./environment/bin/python",
        )
    )
    assert found["problems"] == []
    assert found["count"] == 1
    executors = [(folder, python) for place, folder, python, _ in found["places"] if place == "executor"]
    assert len(executors) == 2
    for folder, python in executors:
        assert folder != str(tmp_path)
        assert Path(python) == Path(folder, "environment/bin/python")


def _zip_of_the_session(tmp_path: Path, server: str, master: str) -> None:
    """It works with `configure`."""
    bare = _environment(tmp_path / "bare", has_rowlock=False)
    if importlib.util.find_spec("rowlock").origin.startswith(sysconfig.get_path("purelib")):  # type: ignore[union-attr]
        pytest.skip("rowlock is installed where the environments of this test find all other packages")
    words = [f"pyfile={_zip(tmp_path)}", "configure"]
    workers = str(bare / "bin/python")
    found = retried(lambda: _run(tmp_path, sys.executable, master, server, *words, workers=workers))
    assert "Failed to find the data source: rowlock" in found["problems_before"][0]
    assert found["problems"] == []
    assert found["count"] == 1
    assert [(place, has_reached) for place, _, _, has_reached in found["places"]] == [
        ("driver", True),
        ("planning", True),
        ("executor", True),
    ]


WAYS: dict[str, Callable[[Path, str], None]] = {
    "an archived environment": _archived_environment,
    "a zip of the session": partial(_zip_of_the_session, master="local[1]"),
    "a zip of the session, by Connect": partial(_zip_of_the_session, master="connect"),
}


@pytest.mark.parametrize("way", drawn(list(WAYS), 1, "ways to install"))
def test_a_way_to_install_it_on_executors_works(tmp_path: Path, server: str, way: str) -> None:
    """Each way starts a Spark of its own."""
    WAYS[way](tmp_path, server)


def test_a_thread_that_configures_the_session_writes(spark: SparkSession, server: str) -> None:
    frame = spark.createDataFrame([(b"k", {"f:q": b"1"})], "row BINARY, columns MAP<STRING, BINARY>")
    failures: list[BaseException] = []

    def write() -> None:
        try:
            rowlock.spark.configure(spark)
            retried(lambda: frame.write.format("rowlock").mode("append").option("server", server).save("shipped"))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert failures == []
    with rowlock.connect(server) as client:
        assert client.table("shipped").row("k") == {b"f:q": b"1"}


def test_a_check_describes_each_process_and_prints_as_a_table(spark: SparkSession, server: str) -> None:
    report = retried(lambda: rowlock.spark.check(spark, server))
    assert report.is_well
    assert [place.place for place in report.places] == ["driver", "planning", "executor"]
    for place in report.places:
        assert place.python == sys.executable
        assert place.has_reached
        assert set(place.versions) == set(PACKAGES)
        assert place.versions["rowlock"] == rowlock.__version__
    table = str(report)
    assert table.splitlines()[0].split() == [
        "place",
        "host",
        "Python",
        "rowlock",
        "pyspark",
        "pyarrow",
        "grpcio",
        "server",
        "executable",
    ]
    assert table.endswith("no problems found")


def test_a_check_reports_the_processes_that_do_not_reach_the_server(spark: SparkSession) -> None:
    report = retried(lambda: rowlock.spark.check(spark, "127.0.0.1:1", timeout=1))
    assert len(report.problems) == 3
    for problem, place in zip(report.problems, ("driver", "planning", "executor"), strict=True):
        assert problem.startswith(f"{place} on ")
        assert "server not reached: ServerUnavailableError: no rowlock server answers at 127.0.0.1:1" in problem
    assert str(report).count("not reached") == 6


def test_a_check_without_a_server_contacts_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWLOCK_SERVER", raising=False)
    report = retried(lambda: rowlock.spark.check(spark))
    assert report.is_well
    assert {place.server for place in report.places} == {""}
