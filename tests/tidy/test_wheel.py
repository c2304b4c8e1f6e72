"""The wheel that is built from these sources contains what it should, and works without the sources."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path

from tests.tidy.test_documents import links_of
from tools.index_description import WITHOUT_ADDRESS, described

_ROOTS = {
    "client/rowlock": "rowlock",
    "client/pyspark_rowlock": "pyspark_rowlock",
    "client/rowlock_command.py": "rowlock_command.py",
    "regionserver/rowlock_regionserver": "rowlock_regionserver",
    "proto/rowlock_proto": "rowlock_proto",
}


def test_wheel_holds_the_four_packages_the_entry_point_and_nothing_else(
    root: Path, wheel: Path, committed_files: Sequence[Path]
) -> None:
    expected = set()
    for path in committed_files:
        name = path.relative_to(root).as_posix()
        for folder, package in _ROOTS.items():
            if name == folder or name.startswith(f"{folder}/"):
                expected.add(package + name.removeprefix(folder))
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == expected


def test_wheel_is_typed_and_licensed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {"rowlock/py.typed", "rowlock_regionserver/py.typed"} <= set(names)
        [licence] = [name for name in names if name.endswith("/LICENSE")]
        assert b"Apache License" in archive.read(licence)
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        assert b"\nLicense-Expression: Apache-2.0\n" in archive.read(metadata)


def test_the_description_for_the_index_has_no_relative_link(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(text) > 0.9 * len((root / "README.md").read_text())
    assert [target for target in links_of(text) if not target.startswith("https://")] == []


def test_links_of_the_readme_become_names_or_absolute(root: Path) -> None:
    readme = (
        "# t\n\n[docs/a.md](docs/a.md) [b](docs/b.md#c) [below](#d) ![P](p.png) [w](https://w)\n\n```\n[x](y)\n```\n"
    )
    assert described(readme, None) == (
        f"# t\n\n{WITHOUT_ADDRESS}\n\ndocs/a.md b (docs/b.md) below P: p.png [w](https://w)\n\n```\n[x](y)\n```\n"
    )
    at = "https://forge.example/rowlock"
    assert described(readme, at) == (
        f"# t\n\n[docs/a.md]({at}/blob/HEAD/docs/a.md) [b]({at}/blob/HEAD/docs/b.md#c) [below]({at}#d) "
        f"![P]({at}/raw/HEAD/p.png) [w](https://w)\n\n```\n[x](y)\n```\n"
    )
    whole = described((root / "README.md").read_text(), at)
    assert [target for target in links_of(whole) if not target.startswith("https://")] == []
    assert [target for target in links_of(whole) if target.startswith(f"{at}/raw/")] == [f"{at}/raw/HEAD/docs/demo.png"]


def test_wheel_declares_its_commands_and_the_pytest_plugin(root: Path, wheel: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        entry_points = configparser.ConfigParser(delimiters=("=",))
        entry_points.read_string(archive.read(name).decode())
    assert dict(entry_points["console_scripts"]) == project["scripts"]
    assert dict(entry_points["pytest11"]) == project["entry-points"]["pytest11"]
    for target in [*project["scripts"].values(), *project["entry-points"]["pytest11"].values()]:
        module = target.partition(":")[0].replace(".", "/") + ".py"
        with zipfile.ZipFile(wheel) as archive:
            assert module in archive.namelist(), f"the entry point {target} names no module"


def test_packages_import_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Dependencies come from the environment, the packages from the archive, unpacked as an installer does."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import rowlock, rowlock.cli.main, rowlock.pytest_plugin, rowlock.spark, rowlock_regionserver.__main__\n"
        "import rowlock_proto.v1.region_pb2, pyspark_rowlock, rowlock_command\n"
        "for module in (rowlock, rowlock_regionserver, rowlock_proto, pyspark_rowlock, rowlock_command):\n"
        "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
