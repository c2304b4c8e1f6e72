"""Unnamed files that are not proven to be leftovers are moved and never deleted; a command removes them."""

from __future__ import annotations

import errno
import io
import json
import os
import time
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.config import Config
from rowlock_regionserver.data_folder import FORMAT, DataFolder
from rowlock_regionserver.errors import CorruptionError, DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.set_aside import SET_ASIDE, list_set_aside
from rowlock_regionserver.inspection.remove_set_aside import main
from rowlock_regionserver.inspection.verify import Verification, verify_folder
from rowlock_regionserver.region.new_region import make_region_folder
from rowlock_regionserver.table import Table

from tests.crash.simulated_files import Loss, SimulatedFiles
from tests.unit.host.stopped_folder import (
    FAMILIES,
    as_the_version_before_left_it,
    content_of,
    newest,
    opened,
    put,
    rows_of,
)
from tests.unit.region.conftest import abandon

STORE_FILE = "1-000000000007.store"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the version before: one table with a row in a store file, and no noted generation."""
    server = opened(tmp_path)
    server.create_table("t", FAMILIES)
    put(server, "t", b"r")
    server.stop()
    as_the_version_before_left_it(tmp_path)
    return tmp_path


def remarks_on(folder: Path) -> list[str]:
    found = Verification()
    verify_folder(folder, Files(), found)
    assert found.damage == []
    return found.remarks


def test_a_folder_of_the_version_before_opens_whole(folder: Path) -> None:
    assert remarks_on(folder) == []
    for _ in range(2):
        server = opened(folder)
        assert rows_of(server, "t") == {b"r": [b"f", b"g"]}
        assert server.set_aside == ()
        server.stop()
    assert not (folder / SET_ASIDE).exists()


def test_what_a_create_leaves_right_after_the_first_start_is_removed(tmp_path: Path) -> None:
    """The log's thread is slow, so the log would note the first catalog later than the table's folder is made."""
    disk = SimulatedFiles(tmp_path / "data")
    disk.before_call = lambda call: time.sleep(0.3 if call.name == "pwrite" and call.path.suffix == ".wal" else 0)
    server = opened(disk.root, disk)
    make_region_folder(disk, disk.root / "regions" / "1", 1, Table("t", 1, ()), Config())
    disk.power_failure(tmp_path / "after", Loss.NOTHING)
    server.stop()
    again = opened(tmp_path / "after")
    assert again.set_aside == ()
    again.stop()
    assert list((tmp_path / "after" / "regions").iterdir()) == []


def test_a_regions_folder_without_proof_is_set_aside(folder: Path) -> None:
    make_region_folder(Files(), folder / "regions" / "2", 2, Table("lost", 2, ()), Config())
    manifest = newest(folder / "regions" / "2", "manifest").read_bytes()
    (remark,) = remarks_on(folder)
    assert remark.startswith(f"unnamed: {folder / 'regions' / '2'} (")
    assert remark.endswith("the next start sets it aside")
    server = opened(folder)
    assert rows_of(server, "t") == {b"r": [b"f", b"g"]}
    (aside,) = server.set_aside
    assert aside.path == folder / SET_ASIDE / "region-2"
    assert newest(aside.path, "manifest").read_bytes() == manifest
    assert not (folder / "regions" / "2").exists()
    assert str(folder / "regions" / "2") in aside.note
    assert "UTC" in aside.note
    # The next table gets the id, but has nothing in common with it.
    server.create_table("u", FAMILIES)
    put(server, "u", b"row of u")
    server.stop()
    (remark,) = remarks_on(folder)
    assert remark.startswith(f"set aside: {aside.path} (")
    server = opened(folder)
    assert content_of(server) == {"t": {b"r": [b"f", b"g"]}, "u": {b"row of u": [b"f", b"g"]}}
    assert server.set_aside == (aside,)
    server.stop()


def test_a_folder_that_holds_more_than_a_create_makes_is_set_aside(tmp_path: Path) -> None:
    """By the log no such table was ever made, but the content of the file is unknown."""
    server = opened(tmp_path)
    server.create_table("t", FAMILIES)
    server.stop()
    stray = tmp_path / "regions" / "2" / "a copy of my rows"
    make_region_folder(Files(), stray.parent, 2, Table("lost", 2, ()), Config())
    stray.write_bytes(b"rows")
    (remark,) = remarks_on(tmp_path)
    assert remark.endswith("the next start sets it aside")
    server = opened(tmp_path)
    (aside,) = server.set_aside
    assert (aside.path / stray.name).read_bytes() == b"rows"
    assert "more files than a create makes" in aside.note
    server.stop()


def test_a_file_with_the_name_of_a_regions_folder_is_set_aside(tmp_path: Path) -> None:
    """A start ended with NotADirectoryError, whatever the id."""
    server = opened(tmp_path)
    server.create_table("t", FAMILIES)
    server.create_table("u", FAMILIES)
    server.drop_table("u")
    server.stop()
    for region_id in (2, 99):
        (tmp_path / "regions" / str(region_id)).write_bytes(b"my notes")
    assert [remark.endswith("the next start sets it aside") for remark in remarks_on(tmp_path)] == [True, True]
    server = opened(tmp_path)
    assert [aside.path.read_bytes() for aside in server.set_aside] == [b"my notes", b"my notes"]
    server.stop()


def test_a_new_region_sets_aside_a_folder_of_its_name(tmp_path: Path) -> None:
    """The start could not move it, or an operator put it there later."""
    server = opened(tmp_path)
    stray = tmp_path / "regions" / "1" / "a copy of my rows"
    stray.parent.mkdir()
    stray.write_bytes(b"rows")
    server.create_table("t", FAMILIES)
    put(server, "t", b"r")
    server.stop()
    (aside,) = list_set_aside(tmp_path, Files())
    assert (aside.path / stray.name).read_bytes() == b"rows"
    server = opened(tmp_path)
    assert rows_of(server, "t") == {b"r": [b"f", b"g"]}
    server.stop()


def test_a_store_file_without_proof_is_set_aside(folder: Path) -> None:
    (folder / "regions" / "1" / STORE_FILE).write_bytes(b"cells, perhaps")
    (remark,) = remarks_on(folder)
    assert remark.endswith("the next start sets it aside")
    server = opened(folder)
    (aside,) = server.set_aside
    assert aside.path == folder / SET_ASIDE / f"region-1-{STORE_FILE}"
    assert aside.path.read_bytes() == b"cells, perhaps"
    assert rows_of(server, "t") == {b"r": [b"f", b"g"]}
    server.stop()


def test_a_second_thing_of_the_same_name_does_not_replace_the_first(folder: Path) -> None:
    for number in range(3):
        (folder / "regions" / "1" / STORE_FILE).write_bytes(b"%d" % number)
        opened(folder).stop()
        as_the_version_before_left_it(folder)
    asides = list_set_aside(folder, Files())
    assert [aside.path.name for aside in asides] == [f"region-1-{STORE_FILE}{end}" for end in ("", ".2", ".3")]
    assert [aside.path.read_bytes() for aside in asides] == [b"0", b"1", b"2"]


def test_a_manifest_that_was_lost_before_any_was_noted_costs_no_file(folder: Path) -> None:
    """The rows of its files are not served but not lost: they can be restored with the manifest."""
    files = sorted((folder / "regions" / "1").glob("*.store"))
    contents = [path.read_bytes() for path in files]
    lost = newest(folder / "regions" / "1", "manifest")
    lost.unlink()
    older = generations.read_newest(Files(), folder / "regions" / "1", "manifest", version_max=2)[1]
    assert json.loads(older)["store_files"] == {}
    try:
        opened(folder).stop()
    except CorruptionError:
        pytest.fail("one region is no reason not to start")
    kept = [*(folder / SET_ASIDE).glob("*.store"), *(folder / "regions" / "1").glob("*.store")]
    assert sorted(path.read_bytes() for path in kept) == sorted(contents)


def test_beside_damage_in_the_log_nothing_is_removed(tmp_path: Path) -> None:
    server = opened(tmp_path)
    server.create_table("t", FAMILIES)
    server.create_table("u", FAMILIES)
    for row in (b"r1", b"r2", b"r3"):
        put(server, "t", row)
        put(server, "u", row)
    server.stop()
    server = opened(tmp_path)
    put(server, "t", b"damaged row")
    put(server, "u", b"whole row")
    segment = sorted((tmp_path / "log").glob("0*.wal"))[-1]
    abandon(server)
    data = bytearray(segment.read_bytes())
    data[data.index(b"damaged row")] ^= 1
    segment.write_bytes(data)
    make_region_folder(Files(), tmp_path / "regions" / "3", 3, Table("lost", 3, ()), Config())
    for region_id in (1, 2):
        (tmp_path / "regions" / str(region_id) / "1-000000000077.store").write_bytes(b"cells, perhaps")
    server = opened(tmp_path)
    assert list(server.damaged_regions()) == [1]
    assert [aside.path.name for aside in server.set_aside] == ["region-2-1-000000000077.store", "region-3"]
    assert (tmp_path / "regions" / "1" / "1-000000000077.store").exists(), "of a damaged region nothing is moved"
    server.stop()


@pytest.fixture
def with_aside(folder: Path) -> Path:
    """A stopped server's folder with two entries in `set-aside`."""
    (folder / FORMAT).write_text(f"rowlock data folder, format 1, id {'0' * 32}\n")
    make_region_folder(Files(), folder / "regions" / "2", 2, Table("lost", 2, ()), Config())
    (folder / "regions" / "1" / STORE_FILE).write_bytes(b"cells, perhaps")
    opened(folder).stop()
    assert len(list_set_aside(folder, Files())) == 2
    return folder


@pytest.mark.parametrize(
    ("arguments", "answer", "code"),
    [(["--yes"], "", 0), ([], "y\n", 0), ([], "Yes\n", 0), ([], "\n", 1), ([], "no\n", 1), ([], "", 2)],
)
def test_the_command_removes_the_files_after_a_yes(
    with_aside: Path, arguments: list[str], answer: str, code: int
) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    asides = list_set_aside(with_aside, Files())
    assert main([str(with_aside), *arguments], io.StringIO(answer), stdout, stderr) == code
    for aside in asides:
        assert f"{aside.path} ({aside.note})\n" in stdout.getvalue()
    assert ("use --yes" in stderr.getvalue()) == (code == 2)
    assert list_set_aside(with_aside, Files()) == ([] if code == 0 else asides)
    assert (with_aside / SET_ASIDE).exists() == (code != 0)
    server = opened(with_aside)
    assert rows_of(server, "t") == {b"r": [b"f", b"g"]}
    server.stop()


def test_the_command_says_that_there_is_nothing(with_aside: Path) -> None:
    assert main([str(with_aside), "--yes"], io.StringIO(), io.StringIO(), io.StringIO()) == 0
    stdout = io.StringIO()
    assert main([str(with_aside)], io.StringIO(), stdout, io.StringIO()) == 0
    assert stdout.getvalue() == f"nothing is set aside in {with_aside}\n"


def test_the_command_leaves_a_folder_in_use_alone(with_aside: Path, tmp_path: Path) -> None:
    for folder in (with_aside, tmp_path / "nosuch"):
        with DataFolder.open(with_aside, Files()):
            stderr = io.StringIO()
            assert main([str(folder), "--yes"], io.StringIO(), io.StringIO(), stderr) == 2
            assert str(folder) in stderr.getvalue()
    assert len(list_set_aside(with_aside, Files())) == 2


def test_a_start_reports_damaged_regions_and_files_set_aside(with_aside: Path) -> None:
    path = sorted((with_aside / "regions" / "1").glob("*.store"))[0]
    path.unlink()
    server = opened(with_aside)
    assert server.startup_report() == (
        f"; damaged and closed: region 1 of table 't' ({path}); set aside in {with_aside / SET_ASIDE}: "
        f"region-1-{STORE_FILE}, region-2; 'rowlock-server verify {with_aside}' says more when the server is stopped"
    )
    server.stop()


def test_of_much_that_is_set_aside_a_start_names_a_few(folder: Path) -> None:
    for number in range(9):
        (folder / "regions" / "1" / f"1-{77 + number:012d}.store").write_bytes(b"x")
    server = opened(folder)
    assert server.startup_report().count(".store") == 5
    assert "000000000081.store and 4 more; " in server.startup_report()
    server.stop()


def test_a_start_on_a_whole_folder_says_nothing_more(folder: Path) -> None:
    server = opened(folder)
    assert server.startup_report() == ""
    server.stop()


class NoSpaceForNotes(Files):
    """Nothing is set aside, because there is no space for the note."""

    is_full = True

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.is_full and path.parent.name == SET_ASIDE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return super().open(path, flags, mode)


def test_a_folder_that_could_not_be_set_aside_is_not_removed_by_the_next_table_either(folder: Path) -> None:
    make_region_folder(Files(), folder / "regions" / "2", 2, Table("lost", 2, ()), Config())
    manifest = newest(folder / "regions" / "2", "manifest").read_bytes()
    files = NoSpaceForNotes()
    server = opened(folder, files)
    assert server.set_aside == ()
    with pytest.raises(DiskFullError):
        server.create_table("u", FAMILIES)
    assert newest(folder / "regions" / "2", "manifest").read_bytes() == manifest
    files.is_full = False
    server.create_table("u", FAMILIES)
    put(server, "u", b"row of u")
    assert newest(folder / SET_ASIDE / "region-2", "manifest").read_bytes() == manifest
    server.stop()
