"""Each way of docs/spark.md to install rowlock on executors. Each starts a Spark of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.drawn_cases import drawn
from tests.spark.session import retried

PROGRAM = Path(__file__).with_name("cluster_program.py")
ROOT = Path(__file__).parents[2]
SECONDS_MAX = 500.0
# Where the source tree has what a wheel has.
_PACKAGES = {"rowlock": "client", "pyspark_rowlock": "client", "rowlock_proto": "proto"}


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
    command = [str(python), str(PROGRAM), master, server, str(folder), *words]
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
    WAYS[way](tmp_path, server)
