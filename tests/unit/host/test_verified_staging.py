"""`rowlock-server verify` reads what open bulk writes have staged, and the histories of compactions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.compaction import history
from rowlock_regionserver.data_folder import FORMAT
from rowlock_regionserver.errors import DataFolderError
from rowlock_regionserver.files import Files
from rowlock_regionserver.inspection import verify
from rowlock_regionserver.sessions.session import SessionRef

from tests.unit.host.bulk_store import FAMILIES, Store, everywhere

SESSION_LOST = "; the next start ends this bulk write, which was not committed"
UNCOMMITTED = "; only a bulk write that was not committed needs it"
HISTORY = "; a start ignores it, as it is only a history of compactions"

DAMAGED = {
    "staging/*/write": SESSION_LOST,
    "staging/*/batch-*": SESSION_LOST,
    "staging/*/spill-*": SESSION_LOST,
    "staging/*/*.store": UNCOMMITTED,
    "bulk/*.bulk": UNCOMMITTED,
    "regions/*/compactions-*": HISTORY,
}


def staged(folder: Path) -> tuple[Store, SessionRef]:
    """Returns a server, and its session with an open bulk write: spilled batches, and a batch in bulk files."""
    store = Store(folder, spills_at=2000)
    store.server.create_table("t", FAMILIES)
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    store.stage(ref, *[(row + b"2", b"1") for row in (b"a", b"h")])
    return store, ref


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a stopped server with an open bulk write, and a history of compactions."""
    store, _ = staged(tmp_path / "data")
    store.server.stop()
    (store.folder / FORMAT).write_text(f"rowlock data folder, format 1, id {'0' * 32}\n")
    generations.write(Files(), store.folder / "regions" / "1", "compactions", 1, history.encode({}, 1))
    for pattern in DAMAGED:
        assert list(store.folder.glob(pattern)), pattern
    return store.folder


def verified(folder: Path) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return verify.main([str(folder)], stdout, stderr), stdout.getvalue(), stderr.getvalue()


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def incomprehensible(path: Path) -> None:
    """Puts other contents with the right checksum in a small file."""
    number = 1 if path.name == "write" else int(path.name.rpartition("-")[2])
    path.write_bytes(generations.framed(number, json.dumps([]).encode()))


def test_an_open_bulk_write_is_intact_and_counted(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    exit_code, out, err = verified(folder)
    assert (exit_code, err) == (0, "")
    assert out.endswith(" open bulk writes; 0 damaged places\n")
    assert ", 1 open bulk writes" in out
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def spoiled() -> Iterator[pytest.ParameterSet]:
    for pattern in DAMAGED:
        for spoil in (flipped, emptied, incomprehensible):
            if spoil is not incomprehensible or not pattern.endswith((".store", ".bulk")):
                yield pytest.param(pattern, spoil, id=f"{pattern} {spoil.__name__}")


@pytest.mark.parametrize(("pattern", "spoil"), list(spoiled()))
def test_a_damaged_file_is_named_with_what_it_costs(folder: Path, pattern: str, spoil: Callable[[Path], None]) -> None:
    path = sorted(folder.glob(pattern))[-1]
    spoil(path)
    exit_code, out, err = verified(folder)
    assert (exit_code, err) == (1, "")
    damage = [line for line in out.splitlines() if line.startswith(f"damaged: {path} at byte ")]
    assert damage, out
    assert {line.endswith(DAMAGED[pattern]) for line in damage} == {True}, out
    assert "salvage" not in out  # It has nothing that salvage extracts.


@pytest.mark.parametrize("pattern", ["bulk/*.bulk", "staging/*/*.store", "staging/*/batch-00000001"])
def test_a_missing_file_of_an_open_bulk_write_is_named(folder: Path, pattern: str) -> None:
    path = sorted(folder.glob(pattern))[-1]
    path.unlink()
    exit_code, out, _ = verified(folder)
    assert exit_code == 1
    assert f"damaged: {path} at byte 0" in out


def test_what_an_unfinished_removal_has_left_is_no_damage(folder: Path) -> None:
    (path,) = folder.glob("staging/*/write")
    path.unlink()
    exit_code, out, _ = verified(folder)
    assert exit_code == 0
    assert f"unnamed: {path.parent} (it has no write; its removal did not finish); the next start removes it" in out


def test_what_a_commit_has_left_is_no_damage(tmp_path: Path) -> None:
    store, ref = staged(tmp_path / "data")
    store.commit(ref)  # Its files are removed later.
    found = verify.Verification()
    verify.verify_folder(store.folder, Files(), found)
    assert found.damage == []
    (remark,) = found.remarks
    assert "its bulk write was committed" in remark
    store.server.stop()


def test_a_file_that_stops_the_next_start_is_not_checked(folder: Path) -> None:
    """Of a newer version, as for other files."""
    (path,) = folder.glob("staging/*/write")
    path.write_bytes(generations.framed(1, b"{}", version=2))
    exit_code, _, err = verified(folder)
    assert exit_code == 2
    assert f"{path} has format version 2" in err
    with pytest.raises(DataFolderError, match="has format version 2"):
        Store(folder)


def test_a_history_of_a_newer_version_stops_nothing(folder: Path) -> None:
    (path,) = folder.glob("regions/*/compactions-*")
    path.write_bytes(generations.framed(1, b"{}", version=2))
    exit_code, out, _ = verified(folder)
    assert exit_code == 0
    assert f"unreadable: {path} has format version 2" in out


def test_a_folder_without_staging_is_one_of_an_earlier_version(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    store.server.stop()
    (store.folder / "staging").rmdir()
    found = verify.Verification()
    verify.verify_folder(store.folder, Files(), found)
    assert (found.damage, found.remarks) == ([], [])


def test_a_file_in_the_place_of_staging_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    store.server.stop()
    (store.folder / "staging").rmdir()
    (store.folder / "staging").write_text("")
    found = verify.Verification()
    verify.verify_folder(store.folder, Files(), found)
    assert [error.path for error in found.damage] == [store.folder / "staging"]
