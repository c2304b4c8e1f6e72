"""A new file is there completely and durably, or not at all, whichever step fails."""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pytest
from rowlock_regionserver.durable_files import (
    TEMPORARY_SUFFIX,
    durably_named,
    new_file,
    replace_file,
    write_synced,
)
from rowlock_regionserver.errors import DiskFullError, OutOfMemoryError, TooManyOpenFilesError, UnknownOutcomeError
from rowlock_regionserver.files import SYNCED_BYTES, Files

from tests.crash.simulated_files import Call, Loss, Moment, SimulatedCrash, SimulatedFiles

ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM]
OLD, NEW = b"what was there", b"what is new" * 100

Write = Callable[[Files, Path], None]


def written_by_others(files: Files, path: Path) -> None:
    with durably_named(files, path) as temporary:
        write_synced(files, temporary, NEW)


def written_in_parts(files: Files, path: Path) -> None:
    with new_file(files, path) as file:
        file.append(NEW[:10])
        file.append(pa.py_buffer(NEW)[10:])


def replaced(files: Files, path: Path) -> None:
    replace_file(files, path, NEW)


# By name, the two ways whose file is named by another file.
UNNAMED: dict[str, Write] = {"durably_named": written_by_others, "new_file": written_in_parts}
EVERY: dict[str, Write] = {"replace_file": replaced, **UNNAMED}


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedFiles:
    return SimulatedFiles(tmp_path / "data")


def raised(error_number: int, step: str) -> type[Exception]:
    if error_number == errno.ENOMEM and not step.startswith("fsync"):
        return OutOfMemoryError  # A failed sync is final, also for lack of memory.
    return DiskFullError if error_number in (errno.ENOSPC, errno.EDQUOT) else OSError


def steps_of(disk: SimulatedFiles) -> list[tuple[str, str]]:
    return [(call.name, call.path.name) for call in disk.calls]


TEMPORARY = "name" + TEMPORARY_SUFFIX


@pytest.mark.parametrize("way", ["replace_file", "durably_named"])
def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(disk: SimulatedFiles, way: str) -> None:
    EVERY[way](disk, disk.root / "name")
    assert steps_of(disk) == [
        ("create", TEMPORARY),
        ("pwrite", TEMPORARY),
        ("fsync", TEMPORARY),
        ("rename", "name"),
        ("fsync_folder", "data"),
    ]
    assert disk.read(disk.root / "name") == NEW


def test_a_file_that_something_else_names_is_written_under_its_name(disk: SimulatedFiles) -> None:
    written_in_parts(disk, disk.root / "name")
    assert steps_of(disk) == [
        ("create", "name"),
        ("pwrite", "name"),
        ("pwrite", "name"),
        ("fsync", "name"),
        ("fsync_folder", "data"),
    ]
    assert disk.read(disk.root / "name") == NEW


def test_a_new_file_knows_its_length_and_checksum(disk: SimulatedFiles) -> None:
    with new_file(disk, disk.root / "name") as file:
        assert (file.byte_count, file.checksum) == (0, 0)
        file.append(NEW[:7])
        file.append(b"")
        file.append(pa.py_buffer(NEW)[7:])
    assert (file.byte_count, file.checksum) == (len(NEW), google_crc32c.value(NEW))


def test_the_syncs_at_the_end_are_inside_the_syncing_context(disk: SimulatedFiles) -> None:
    events: list[str] = []

    def note(call: Call) -> None:
        events.append(call.name)

    @contextlib.contextmanager
    def syncing() -> Iterator[None]:
        events.append("(")
        yield
        events.append(")")

    disk.before_call = note
    with new_file(disk, disk.root / "name", syncing) as file:
        file.append(NEW)
    assert events == ["create", "pwrite", "(", "fsync", ")", "(", "fsync_folder", ")"]


@pytest.mark.parametrize("part_bytes", [1000, SYNCED_BYTES, 3 * SYNCED_BYTES + 7])
def test_a_large_new_file_is_synced_as_it_grows(disk: SimulatedFiles, part_bytes: int) -> None:
    """One sync of all of it would make the syncs of all other files wait."""
    content = random.Random(1).randbytes(3 * SYNCED_BYTES + 7)
    unsynced_bytes: list[int] = []
    synced_bytes = 0

    def note(call: Call) -> None:
        nonlocal synced_bytes
        if call.name in ("fdatasync", "fsync"):
            file_bytes = call.path.stat().st_size
            unsynced_bytes.append(file_bytes - synced_bytes)
            synced_bytes = file_bytes

    disk.before_call = note
    with new_file(disk, disk.root / "name") as file:
        for start in range(0, len(content), part_bytes):
            file.append(content[start : start + part_bytes])
    assert len(unsynced_bytes) >= 3
    assert max(unsynced_bytes) < 2 * SYNCED_BYTES
    assert (file.byte_count, file.checksum) == (len(content), google_crc32c.value(content))
    assert disk.read(disk.root / "name") == content


def test_a_new_file_whose_sync_failed_is_removed_and_not_synced_again(disk: SimulatedFiles) -> None:
    disk.fail_next("fdatasync", errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), new_file(disk, disk.root / "name") as file:
        file.append(bytes(2 * SYNCED_BYTES))
    assert [call.name for call in disk.calls] == ["create", "pwrite", "fdatasync", "remove"]
    assert disk.list_folder(disk.root) == []


@pytest.mark.parametrize("step", ["create", "pwrite", "fsync", "rename"])
@pytest.mark.parametrize("error_number", ERRORS, ids=[errno.errorcode[number] for number in ERRORS])
def test_a_failure_before_the_rename_changes_nothing_and_leaves_nothing(
    disk: SimulatedFiles, error_number: int, step: str
) -> None:
    path = disk.root / "name"
    replace_file(disk, path, OLD)
    disk.fail_next(step, error_number)
    with pytest.raises(raised(error_number, step)):
        replace_file(disk, path, NEW)
    assert (disk.list_folder(disk.root), disk.read(path)) == (["name"], OLD)
    disk.before_call = lambda call: None
    replace_file(disk, path, NEW)
    assert (disk.list_folder(disk.root), disk.read(path)) == (["name"], NEW)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_name_that_readers_look_for_is_an_unknown_outcome_when_its_folder_is_not_synced(
    disk: SimulatedFiles, error_number: int
) -> None:
    disk.fail_next("fsync_folder", error_number)
    with pytest.raises(UnknownOutcomeError, match="name is written, but its folder could not be synced"):
        replace_file(disk, disk.root / "name", NEW)
    assert disk.read(disk.root / "name") == NEW, "what may be found after a power failure is also there before it"


@pytest.mark.parametrize("error_number", ERRORS, ids=[errno.errorcode[number] for number in ERRORS])
@pytest.mark.parametrize("step", ["create", "pwrite", "fsync", "rename", "fsync_folder"])
@pytest.mark.parametrize("way", UNNAMED)
def test_a_file_that_nothing_names_yet_is_removed_when_a_step_fails(
    disk: SimulatedFiles, way: str, step: str, error_number: int
) -> None:
    if way == "new_file" and step == "rename":
        return  # It has its name from the beginning.
    disk.fail_next(step, error_number)
    # With `durably_named` the block writes the file and raises any error; a full disk is still DiskFullError.
    with pytest.raises(raised(error_number, step)):
        UNNAMED[way](disk, disk.root / "name")
    assert disk.list_folder(disk.root) == []
    disk.before_call = lambda call: None
    UNNAMED[way](disk, disk.root / "name")
    assert (disk.list_folder(disk.root), disk.read(disk.root / "name")) == (["name"], NEW)


@pytest.mark.parametrize("way", EVERY)
def test_the_first_failure_is_raised_also_when_nothing_can_be_removed(disk: SimulatedFiles, way: str) -> None:
    def fail(call: Call) -> None:
        if call.name in ("fsync", "remove"):
            raise OSError(errno.EIO, f"no {call.name}", str(call.path))

    disk.before_call = fail
    with pytest.raises(OSError, match="no fsync"):
        EVERY[way](disk, disk.root / "name")


class NoDescriptors(Files):
    """No file can be opened to be written."""

    def with_descriptor(self, path: Path, call: Callable[[], object]) -> object:  # type: ignore[override]
        def refuse() -> object:
            raise OSError(errno.EMFILE, "Too many open files", str(path))

        return super().with_descriptor(path, refuse)


@pytest.mark.parametrize("way", EVERY)
def test_a_want_of_descriptors_changes_nothing(tmp_path: Path, way: str) -> None:
    with pytest.raises(TooManyOpenFilesError, match="nothing was changed"):
        EVERY[way](NoDescriptors(), tmp_path / "name")
    assert list(tmp_path.iterdir()) == []


def interrupted_by_others(files: Files, path: Path) -> None:
    with durably_named(files, path) as temporary:
        write_synced(files, temporary, NEW)
        raise KeyboardInterrupt


def interrupted_in_parts(files: Files, path: Path) -> None:
    with new_file(files, path) as file:
        file.append(NEW)
        raise KeyboardInterrupt


@pytest.mark.parametrize("write", [interrupted_by_others, interrupted_in_parts])
def test_a_block_that_raises_leaves_no_file(disk: SimulatedFiles, write: Write) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(disk, disk.root / "name")
    assert disk.list_folder(disk.root) == []


def test_a_new_file_does_not_touch_one_of_its_name(disk: SimulatedFiles) -> None:
    path = disk.root / "name"
    replace_file(disk, path, OLD)
    with pytest.raises(FileExistsError):
        written_in_parts(disk, path)
    assert disk.read(path) == OLD


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("way", EVERY)
def test_a_crash_at_any_call_leaves_the_old_state_or_the_complete_file(
    tmp_path: Path, way: str, moment: Moment, loss: Loss
) -> None:
    for call in range(1, 10):
        disk = SimulatedFiles(tmp_path / f"data-{call}")
        if way == "replace_file":
            replace_file(disk, disk.root / "name", OLD)
        disk.crash_at(call, moment)
        try:
            EVERY[way](disk, disk.root / "name")
        except SimulatedCrash:
            is_acknowledged = False
        else:
            is_acknowledged = True
        after = disk.power_failure(tmp_path / f"after-{call}", loss, seed=call) / "name"
        found = after.read_bytes() if after.exists() else None
        if is_acknowledged:
            assert found == NEW
            assert call > 5, "the crashes did not reach every call"
            return
        if way != "new_file":  # Such a file may have any content: nothing names it.
            assert found in (NEW, OLD if way == "replace_file" else None)
    pytest.fail("no call was the last one")
