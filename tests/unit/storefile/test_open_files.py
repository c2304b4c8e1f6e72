"""Descriptors of store files are opened on demand, bounded, and always of the same file; and removal of files."""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from rowlock_regionserver.errors import CorruptionError, RegionTooBusyError, TooManyOpenFilesError
from rowlock_regionserver.files import Files
from rowlock_regionserver.sources import RowPlace
from rowlock_regionserver.storefile.cache import BlockCache
from rowlock_regionserver.storefile.open_files import OpenFiles
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.storefile.writer import write_store_file

from tests.invariants import check
from tests.unit.storefile.store_file_case import SMALL_FAMILY, Case, rows_of, simple_cells, table_of
from tests.waiting import wait_until

CELLS = simple_cells(50)


def written(folder: Path, count: int, open_files: OpenFiles) -> list[StoreFile]:
    """Returns store files with the same cells, and no block cache."""
    files = []
    for number in range(count):
        path = folder / f"{number}.store"
        info = write_store_file(path, [table_of(CELLS)], SMALL_FAMILY, open_files.files, number=number)
        files.append(StoreFile.open(path, info, BlockCache(0), open_files))
    return files


def reads_right(file: StoreFile) -> bool:
    [run] = file.runs
    return list(run.row_cells(b"r00003")) == rows_of(CELLS)[b"r00003"]


def descriptors_of(folder: Path) -> int:
    """Returns how many descriptors the process has for files below the folder."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            count += os.readlink(link).startswith(str(folder))
        except FileNotFoundError:
            continue
    return count


def test_descriptors_are_bounded_and_the_least_recently_used_goes(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), count_max=3)
    files = written(tmp_path, 10, open_files)
    for file in [*files, *files[::-1]]:
        assert reads_right(file)
        assert descriptors_of(tmp_path) <= 3
    opened = open_files.statistics().opened_count
    for _ in range(5):
        for file in files[:3]:
            assert reads_right(file)
    assert open_files.statistics().opened_count == opened, "those that are used again and again were closed"
    check(open_files)


def test_many_threads_read_more_files_than_may_be_open(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), count_max=2)
    files = written(tmp_path, 6, open_files)
    wrong: list[StoreFile] = []

    def read(first: int) -> None:
        wrong.extend(files[place % 6] for place in range(first, first + 200) if not reads_right(files[place % 6]))

    threads = [threading.Thread(target=read, args=(first,)) for first in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert descriptors_of(tmp_path) <= 2
    check(open_files)


class InterruptedFiles(Files):
    """Does something else once, when a read has its descriptor."""

    meanwhile: Callable[[], object] | None = None

    def pread_into(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().pread_into(descriptor, buffers, offset)


def test_a_descriptor_stays_open_during_a_read_whatever_else_is_opened(tmp_path: Path) -> None:
    files = InterruptedFiles()
    open_files = OpenFiles(files, count_max=1)
    first, *others = written(tmp_path, 3, open_files)
    files.meanwhile = lambda: [reads_right(file) for file in others]
    assert reads_right(first)
    assert files.meanwhile is None
    assert descriptors_of(tmp_path) <= 1


@pytest.mark.parametrize("change", ["another file", "cut", "gone"])
def test_a_file_that_is_another_one_when_it_is_opened_again_is_damage(tmp_path: Path, change: str) -> None:
    """Even with the same bytes, because the index was verified only for the first file."""
    open_files = OpenFiles(Files())
    (file,) = written(tmp_path, 1, open_files)
    open_files.close_idle()
    if change == "another file":
        shutil.copy(file.path, tmp_path / "copy")
        os.replace(tmp_path / "copy", file.path)
    elif change == "cut":
        os.truncate(file.path, file.info.file_bytes - 1)
    else:
        file.path.unlink()
    with pytest.raises(CorruptionError) as damage:
        file.runs[0].row_cells(b"r00003")
    assert damage.value.path == file.path
    assert descriptors_of(tmp_path) == 0


def test_the_event_loop_opens_no_file(case: Case) -> None:
    file = case.open_file(case.write(CELLS), cache_bytes=1 << 20)
    case.open_files.close_idle()
    assert file.runs[0].row_source(b"r00003") is RowPlace.DISK
    assert case.open_files.statistics().open_count == 0
    assert reads_right(file)
    assert not isinstance(file.runs[0].row_source(b"r00003"), RowPlace)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Lets the process open no more files than it has open now."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_without_a_free_descriptor_an_idle_one_is_closed(tmp_path: Path) -> None:
    files = Files()
    open_files = OpenFiles(files)
    first, second, third = written(tmp_path, 3, open_files)
    open_files.close_idle()
    assert reads_right(first)
    assert reads_right(second)
    files.close_idle = open_files.close_idle
    with no_descriptor_left():
        assert reads_right(third)
        assert reads_right(first)
        # Listing a folder needs two descriptors: one is opened, and another lists it.
        assert files.read(first.path)
        assert reads_right(second)
        assert files.list_folder(tmp_path) == ["0.store", "1.store", "2.store"]
        files.fsync_folder(tmp_path)


def test_without_any_descriptor_a_read_can_be_tried_again(tmp_path: Path) -> None:
    open_files = OpenFiles(Files())
    (file,) = written(tmp_path, 1, open_files)
    open_files.close_idle()
    with no_descriptor_left(), pytest.raises(TooManyOpenFilesError, match="ulimit") as refused:
        file.runs[0].row_cells(b"r00003")
    assert isinstance(refused.value, RegionTooBusyError)
    assert refused.value.can_retry
    assert refused.value.retry_after_ms > 0
    assert reads_right(file)


def test_without_any_descriptor_nothing_of_a_store_file_is_left(tmp_path: Path) -> None:
    with no_descriptor_left(), pytest.raises(TooManyOpenFilesError):
        write_store_file(tmp_path / "s", [table_of(CELLS)], SMALL_FAMILY, Files(), number=1)
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_opening_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Files().open(tmp_path / "none", os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        Files().list_folder(Path("/dev/null"))


def test_a_file_is_removed_with_its_last_reference_and_can_be_read_until_then(tmp_path: Path) -> None:
    folder = tmp_path / "region"
    folder.mkdir()
    open_files = OpenFiles(Files(), count_max=1)
    files = written(folder, 2, open_files)
    for file in files:
        file.remove_when_unused(folder_too=True)
    held = files[0]
    del files, file
    gc.collect()
    open_files.close_released()
    assert [path.name for path in folder.iterdir()] == ["0.store"]
    open_files.close_idle()
    assert reads_right(held), "its name was needed to open it again"
    del held
    gc.collect()
    assert folder.exists(), "a finalizer may run anywhere, so it does no work"
    open_files.close_released()
    assert not folder.exists()
    assert open_files.statistics().removed_count == 2


def test_a_value_that_is_away_keeps_its_file(case: Case) -> None:
    large = simple_cells(1, 1, 200_000)
    file = case.open_file(case.write(large), cache_bytes=0)
    (cell,) = file.runs[0].row_cells(b"r00000")
    file.remove_when_unused()
    del file
    gc.collect()
    case.open_files.close_released()
    assert not isinstance(cell[4], bytes)
    assert cell[4].load() == large[0][1][4]
    del cell
    gc.collect()
    case.open_files.close_released()
    assert not case.path.exists()


def test_without_a_thread_the_space_of_large_files_is_freed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have no more threads, and a process that ends starts none."""

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    open_files = OpenFiles(Files())
    *removed, kept = written(tmp_path, 3, open_files)
    monkeypatch.setattr("rowlock_regionserver.files._FREED_BYTES", kept.info.file_bytes // 3)
    monkeypatch.setattr(threading.Thread, "start", fail)
    for file in removed:
        file.remove_when_unused()
    del file
    removed.clear()
    gc.collect()
    assert open_files.close_idle()
    assert reads_right(kept)
    assert list(tmp_path.iterdir()) == [kept.path]
    assert (open_files.statistics().borrowed_count, open_files._is_freeing) == (0, False)
    assert descriptors_of(tmp_path) == open_files.statistics().open_count == 1


@pytest.mark.parametrize("queued_max", [16, 0])
def test_the_space_of_large_files_is_freed_in_pieces_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queued_max: int
) -> None:
    """With too many of them waiting, at once."""
    open_files = OpenFiles(Files())
    files = written(tmp_path, 3, open_files)
    freed: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        freed.append(threading.current_thread().name)
        sync(descriptor)

    monkeypatch.setattr("rowlock_regionserver.files._FREED_BYTES", files[0].info.file_bytes // 3)
    monkeypatch.setattr("rowlock_regionserver.storefile.open_files._UNLINKED_MAX", queued_max)
    monkeypatch.setattr(os, "fsync", note)
    for file in files:
        file.remove_when_unused()
    del file
    files.clear()
    gc.collect()
    open_files.close_released()
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not open_files._is_freeing)
    assert set(freed) == ({"file-remover"} if queued_max else set())
    assert descriptors_of(tmp_path) == 0
