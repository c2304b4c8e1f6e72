"""After any failure the new generation or the one before is there; a damaged one is never skipped."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from rowlock_regionserver import generations
from rowlock_regionserver.errors import CorruptionError, DataFolderError, DiskFullError, UnknownOutcomeError
from rowlock_regionserver.files import Files

from tests.crash.simulated_files import Loss, Moment, SimulatedCrash, SimulatedFiles

NAME = "manifest"


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedFiles:
    return SimulatedFiles(tmp_path / "data")


def test_the_newest_generation_is_read(disk: SimulatedFiles) -> None:
    for number in (1, 2, 9, 10):
        generations.write(disk, disk.root, NAME, number, b"body %d" % number)
        assert generations.read_newest(disk, disk.root, NAME) == (number, b"body %d" % number)


def test_an_empty_body_is_a_body(disk: SimulatedFiles) -> None:
    generations.write(disk, disk.root, NAME, 1, b"")
    assert generations.read_newest(disk, disk.root, NAME) == (1, b"")


def test_the_last_two_are_kept(disk: SimulatedFiles) -> None:
    for number in range(1, 6):
        generations.write(disk, disk.root, NAME, number, b"")
    assert generations.generation_numbers(disk, disk.root, NAME) == [4, 5]
    assert len(disk.list_folder(disk.root)) == 2


def test_names_do_not_see_each_other(disk: SimulatedFiles) -> None:
    generations.write(disk, disk.root, NAME, 5, b"a")
    generations.write(disk, disk.root, NAME + "-x", 7, b"b")
    generations.write(disk, disk.root, "manifes", 9, b"c")
    assert generations.read_newest(disk, disk.root, NAME) == (5, b"a")
    assert generations.read_newest(disk, disk.root, NAME + "-x") == (7, b"b")


def test_no_generation_is_said(disk: SimulatedFiles) -> None:
    with pytest.raises(FileNotFoundError, match=NAME):
        generations.read_newest(disk, disk.root, NAME)


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("moment", Moment)
def test_a_crash_at_any_call_leaves_the_old_generation_or_the_new_one_whole(
    tmp_path: Path, moment: Moment, loss: Loss
) -> None:
    call = 0
    while True:
        call += 1
        disk = SimulatedFiles(tmp_path / f"data-{call}")
        for number in (1, 2):
            generations.write(disk, disk.root, NAME, number, b"old %d" % number)
        disk.crash_at(call, moment)
        try:
            generations.write(disk, disk.root, NAME, 3, b"new" * 1000)
        except SimulatedCrash:
            acknowledged = False
        else:
            acknowledged = True
        after = disk.power_failure(tmp_path / f"after-{call}", loss, seed=call)
        found = generations.read_newest(Files(), after, NAME)
        if acknowledged or found != (2, b"old 2"):
            assert found == (3, b"new" * 1000)
        # A second start finds the same, and the next write works.
        assert generations.read_newest(Files(), after, NAME) == found
        generations.write(Files(), after, NAME, 4, b"next")
        assert generations.read_newest(Files(), after, NAME) == (4, b"next")
        assert all("temporary" not in name for name in Files().list_folder(after))
        if acknowledged:
            break
    assert call > 5, "the crashes did not reach every call"


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("moment", Moment)
def test_a_first_generation_that_is_acknowledged_is_whole_after_a_crash_at_any_call(
    tmp_path: Path, moment: Moment, loss: Loss
) -> None:
    call, acknowledged = 0, False
    while not acknowledged:
        call += 1
        disk = SimulatedFiles(tmp_path / f"data-{call}")
        disk.crash_at(call, moment)
        with contextlib.suppress(SimulatedCrash):
            generations.write_first(disk, disk.root, NAME, b"first" * 1000)
            acknowledged = True
        after = disk.power_failure(tmp_path / f"after-{call}", loss, seed=call)
        # A start removes a folder that nothing names if it has no more than this.
        assert set(Files().list_folder(after)) <= {generations.generation_path(after, NAME, 1).name}
        if acknowledged:
            assert generations.read_newest(Files(), after, NAME) == (1, b"first" * 1000)
    assert call > 4, "the crashes did not reach every call"


@pytest.mark.parametrize("name", ["create", "pwrite", "fsync", "fsync_folder"])
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
def test_a_first_generation_that_fails_leaves_nothing(disk: SimulatedFiles, name: str, error_number: int) -> None:
    disk.fail_next(name, error_number)
    with pytest.raises(DiskFullError if error_number == errno.ENOSPC else OSError):
        generations.write_first(disk, disk.root, NAME, b"first")
    assert disk.list_folder(disk.root) == []
    disk.before_call = lambda call: None
    generations.write_first(disk, disk.root, NAME, b"again")
    assert generations.read_newest(disk, disk.root, NAME) == (1, b"again")


def test_a_first_generation_replaces_none(disk: SimulatedFiles) -> None:
    generations.write(disk, disk.root, NAME, 1, b"there")
    with pytest.raises(FileExistsError):
        generations.write_first(disk, disk.root, NAME, b"other")
    assert generations.read_newest(disk, disk.root, NAME) == (1, b"there")


@pytest.mark.parametrize("name", ["create", "pwrite", "fsync", "rename"])
@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO])
def test_a_failure_before_the_rename_leaves_the_old_generation_and_nothing_else(
    disk: SimulatedFiles, name: str, error_number: int
) -> None:
    generations.write(disk, disk.root, NAME, 1, b"old")
    disk.fail_next(name, error_number)
    with pytest.raises(DiskFullError if error_number == errno.ENOSPC else OSError):
        generations.write(disk, disk.root, NAME, 2, b"new")
    assert len(disk.list_folder(disk.root)) == 1
    assert generations.read_newest(disk, disk.root, NAME) == (1, b"old")
    disk.before_call = lambda call: None
    generations.write(disk, disk.root, NAME, 2, b"again")
    assert generations.read_newest(disk, disk.root, NAME) == (2, b"again")


def test_a_folder_that_can_not_be_synced_is_an_unknown_outcome(disk: SimulatedFiles) -> None:
    disk.fail_next("fsync_folder", errno.EIO)
    with pytest.raises(UnknownOutcomeError):
        generations.write(disk, disk.root, NAME, 1, b"new")


def test_an_old_generation_that_can_not_be_removed_is_no_failure(disk: SimulatedFiles) -> None:
    for number in (1, 2):
        generations.write(disk, disk.root, NAME, number, b"")
    disk.fail_next("remove", errno.EIO)
    generations.write(disk, disk.root, NAME, 3, b"")
    disk.before_call = lambda call: None
    generations.write(disk, disk.root, NAME, 4, b"")
    assert generations.generation_numbers(disk, disk.root, NAME) == [3, 4]


class ShortWrites(Files):
    """A disk that takes at most 10 bytes a call."""

    def pwrite(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        return super().pwrite(descriptor, data[:10], offset)


def test_short_writes_are_continued(tmp_path: Path) -> None:
    generations.write(ShortWrites(), tmp_path, NAME, 1, b"body" * 30)
    assert generations.read_newest(Files(), tmp_path, NAME) == (1, b"body" * 30)


def test_leftover_temporary_files_are_ignored_and_removed(tmp_path: Path) -> None:
    generations.write(Files(), tmp_path, NAME, 1, b"body")
    leftover = tmp_path / f"{generations.generation_path(tmp_path, NAME, 2).name}.temporary"
    leftover.write_bytes(b"half")
    assert generations.read_newest(Files(), tmp_path, NAME) == (1, b"body")
    assert not leftover.exists()


def test_every_flipped_bit_of_the_newest_generation_is_an_error_that_names_it(tmp_path: Path) -> None:
    generations.write(Files(), tmp_path, NAME, 1, b"old body")
    path = generations.write(Files(), tmp_path, NAME, 2, b"new body")
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        with pytest.raises(CorruptionError) as damage:
            generations.read_newest(Files(), tmp_path, NAME)
        assert damage.value.path == path


def test_a_cut_or_longer_newest_generation_is_an_error(tmp_path: Path) -> None:
    generations.write(Files(), tmp_path, NAME, 1, b"old body")
    path = generations.write(Files(), tmp_path, NAME, 2, b"new body")
    whole = path.read_bytes()
    for raw in [*(whole[:length] for length in range(len(whole))), whole + b"\0"]:
        path.write_bytes(raw)
        with pytest.raises(CorruptionError):
            generations.read_newest(Files(), tmp_path, NAME)


def test_a_generation_under_another_number_is_an_error(tmp_path: Path) -> None:
    path = generations.write(Files(), tmp_path, NAME, 1, b"body")
    path.rename(generations.generation_path(tmp_path, NAME, 2))
    with pytest.raises(CorruptionError, match="number 2"):
        generations.read_newest(Files(), tmp_path, NAME)


def test_a_generation_of_a_newer_rowlock_is_refused(tmp_path: Path) -> None:
    generations.write(Files(), tmp_path, NAME, 1, b"body", version=2)
    with pytest.raises(DataFolderError, match="format version 2"):
        generations.read_newest(Files(), tmp_path, NAME)
    assert generations.read_newest(Files(), tmp_path, NAME, version_max=2) == (1, b"body")
    generations.write(Files(), tmp_path, NAME, 2, b"older")
    assert generations.read_newest(Files(), tmp_path, NAME, version_max=2) == (2, b"older")
