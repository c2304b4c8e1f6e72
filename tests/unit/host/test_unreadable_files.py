"""A file or folder that is missing or unreadable closes its region and no other, and is named.

Asked of the start, of verify and of salvage alike.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pa_parquet
import pytest
from rowlock_regionserver.data_folder import FORMAT
from rowlock_regionserver.errors import CorruptionError, OutOfMemoryError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection.salvage import salvage
from rowlock_regionserver.inspection.verify import Verification, verify_folder

from tests.unit.host.stopped_folder import FAMILIES, content_of, killed, newest, opened, put, put_bulk, rows_of
from tests.unit.region.conftest import abandon

WHOLE = {b"flushed": [b"f", b"g"], b"logged": [b"f", b"g"]}
Spoil = Callable[[Path], Files]


class RefusingFiles(Files):
    """A system that refuses to open one file, or to list one folder."""

    def __init__(self, path: Path, error_number: int) -> None:
        self._path = path
        self._error_number = error_number

    def _check(self, path: Path) -> None:
        if path == self._path:
            raise OSError(self._error_number, os.strerror(self._error_number), str(path))

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        self._check(path)
        return super().open(path, flags, mode)

    def list_folder(self, path: Path) -> list[str]:
        self._check(path)
        return super().list_folder(path)

    def size(self, path: Path) -> int:
        self._check(path)
        return super().size(path)


def missing(path: Path) -> Files:
    path.rename(path.with_name("elsewhere")) if path.is_dir() else path.unlink()
    return Files()


def a_folder_in_its_place(path: Path) -> Files:
    path.unlink()
    path.mkdir()
    return Files()


def a_file_in_its_place(path: Path) -> Files:
    path.rename(path.with_name("elsewhere"))
    path.write_bytes(b"a file")
    return Files()


def forbidden(path: Path) -> Files:
    return RefusingFiles(path, errno.EACCES)


def unreadable(path: Path) -> Files:
    return RefusingFiles(path, errno.EIO)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a killed server: tables `t` and `whole` with rows in files and in the log; `t` has a bulk file."""
    served = tmp_path / "served"
    served.mkdir()
    server = opened(served)
    for table in ("t", "whole"):
        server.create_table(table, FAMILIES)
        put(server, table, b"flushed")
        server.flush(table)
        put(server, table, b"logged")
    put_bulk(server, "t", 20)
    folder = killed(server, served, tmp_path / "data")
    (folder / FORMAT).write_text(f"rowlock data folder, format 1, id {'0' * 32}\n")
    return folder


CASES: dict[str, Callable[[Path], Path]] = {
    "a store file": lambda folder: sorted(folder.glob("regions/1/*.store"))[0],
    "the newest manifest": lambda folder: newest(folder / "regions" / "1", "manifest"),
    "a bulk file": lambda folder: next(folder.glob("bulk/*.bulk")),
}
FOLDERS: dict[str, Callable[[Path], Path]] = {"a region's folder": lambda folder: folder / "regions" / "1"}


def cases() -> Iterator[pytest.ParameterSet]:
    for what, find in CASES.items():
        for spoil in (missing, a_folder_in_its_place, forbidden, unreadable):
            yield pytest.param(find, spoil, id=f"{what} {spoil.__name__}")
    for what, find in FOLDERS.items():
        for spoil in (missing, a_file_in_its_place, forbidden, unreadable):
            yield pytest.param(find, spoil, id=f"{what} {spoil.__name__}")


@pytest.mark.parametrize(("find", "spoil"), list(cases()))
def test_it_costs_its_own_region_and_is_named_by_start_verify_and_salvage(
    folder: Path, tmp_path: Path, find: Callable[[Path], Path], spoil: Spoil
) -> None:
    path = find(folder)
    files = spoil(path)
    names = {path, path.parent} if path.name != "1" else {path, path / "manifest"}
    server = opened(folder, files)
    (damage,) = server.damaged_regions().values()
    assert isinstance(damage, CorruptionError)
    assert damage.path in names
    assert "'rowlock-server " in damage.message
    assert rows_of(server, "whole") == WHOLE
    put(server, "whole", b"more")
    with pytest.raises(CorruptionError):
        server.regions_of("t")
    abandon(server)

    found = Verification()
    verify_folder(folder, files, found)
    assert names.intersection(error.path for error in found.damage)

    salvaged: list[CorruptionError] = []
    salvage(folder, tmp_path / "out", files, salvaged)
    assert names.intersection(error.path for error in salvaged)
    rows = pa_parquet.read_table(tmp_path / "out" / "whole.parquet").column("row").to_pylist()
    assert set(rows) == {b"flushed", b"logged", b"more"}


@pytest.mark.parametrize("spoil", [missing, forbidden, unreadable])
def test_a_restored_file_is_served_again(folder: Path, spoil: Spoil) -> None:
    path = CASES["a store file"](folder)
    kept = path.read_bytes()
    server = opened(folder, spoil(path))
    assert list(server.damaged_regions()) == [1]
    abandon(server)
    path.write_bytes(kept)
    server = opened(folder)
    assert server.damaged_regions() == {}
    content = content_of(server)["t"]
    assert isinstance(content, dict)
    assert {row: content[row] for row in WHOLE} == WHOLE
    assert len(content) == len(WHOLE) + 20
    abandon(server)


def test_descriptors_that_lack_are_no_damage(folder: Path) -> None:
    path = CASES["a store file"](folder)
    with pytest.raises(OSError, match="Too many open files"):
        opened(folder, RefusingFiles(path, errno.EMFILE))


@pytest.mark.parametrize("spoil", [forbidden, unreadable])
def test_a_segment_of_the_log_that_can_not_be_read_is_named(folder: Path, tmp_path: Path, spoil: Spoil) -> None:
    path = folder / "log" / "0000000001.wal"
    files = spoil(path)
    with pytest.raises((OSError, CorruptionError)) as refusal:
        opened(folder, files)
    assert str(path) in str(refusal.value)
    found = Verification()
    verify_folder(folder, files, found)
    assert path in [error.path for error in found.damage]
    salvaged: list[CorruptionError] = []
    salvage(folder, tmp_path / "out", files, salvaged)
    assert path in [error.path for error in salvaged]
    rows = pa_parquet.read_table(tmp_path / "out" / "whole.parquet").column("row").to_pylist()
    assert set(rows) == {b"flushed"}


@pytest.mark.parametrize("spoil", [missing, a_folder_in_its_place, forbidden, unreadable])
def test_the_newest_catalog_that_can_not_be_read_is_named(folder: Path, tmp_path: Path, spoil: Spoil) -> None:
    path = newest(folder / "catalog", "catalog")
    files = spoil(path)
    with pytest.raises((OSError, CorruptionError)) as refusal:
        opened(folder, files)
    assert str(path) in str(refusal.value)
    found = Verification()
    verify_folder(folder, files, found)
    assert path in [error.path for error in found.damage]
    salvaged: list[CorruptionError] = []
    salvage(folder, tmp_path / "out", files, salvaged)
    assert path in [error.path for error in salvaged]


@pytest.mark.parametrize("find", list(CASES.values()), ids=list(CASES))
def test_a_lack_of_memory_is_no_damage(folder: Path, tmp_path: Path, find: Callable[[Path], Path]) -> None:
    """verify and salvage reported it as damage."""
    files = RefusingFiles(find(folder), errno.ENOMEM)
    for attempt in (
        lambda: opened(folder, files),
        lambda: verify_folder(folder, files, Verification()),
        lambda: salvage(folder, tmp_path / "out", files, []),
    ):
        with pytest.raises((OSError, OutOfMemoryError), match="Cannot allocate memory"):
            attempt()


def test_the_error_says_what_to_do(folder: Path) -> None:
    path = CASES["a store file"](folder)
    server = opened(folder, missing(path))
    (damage,) = server.damaged_regions().values()
    assert damage.message == (
        f"{path} can't be read: No such file or directory. None of it is "
        "served; restore it, or make it readable for this user, and restart the server; 'rowlock-server salvage' "
        "extracts the intact data."
    )
    abandon(server)
