"""Bulk writes whose files can't be written or removed as they should, and calls that open one at the same time."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from rowlock_regionserver.errors import SessionEndedError, StoppingError, TooManyOpenFilesError, UnknownOutcomeError
from rowlock_regionserver.files import Files

from tests.unit.host.bulk_store import FAMILIES, Store, everywhere
from tests.waiting import WAIT_S

T = TypeVar("T")


class FailingFiles(Files):
    """Fails or waits where a test says so."""

    def __init__(self) -> None:
        self.failing_sync: Callable[[Path], bool] = lambda _: False
        self.scarce: Callable[[Path], bool] = lambda _: False
        self.may_make_folder: threading.Event | None = None  # for the next folder of a bulk write
        self.makes_folder = threading.Event()

    def fsync_folder(self, path: Path) -> None:
        if self.failing_sync(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().fsync_folder(path)

    def with_descriptor(self, path: Path, call: Callable[[], T]) -> T:
        if self.scarce(path):
            raise TooManyOpenFilesError(f"no descriptor for {path}", retry_after_ms=1)
        return super().with_descriptor(path, call)

    def make_folder(self, path: Path) -> None:
        if self.may_make_folder is not None and path.parent.name == "staging":
            may_make, self.may_make_folder = self.may_make_folder, None
            self.makes_folder.set()
            assert may_make.wait(WAIT_S)
        super().make_folder(path)


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
def store(tmp_path: Path, files: FailingFiles) -> Store:
    store = Store(tmp_path / "data", files=files)
    store.server.create_table("t", FAMILIES)
    return store


def test_a_batch_that_may_be_staged_keeps_its_file(store: Store, files: FailingFiles) -> None:
    """Its client repeats it after the restart, and is answered that it is staged."""
    ref = store.session()
    store.stage(ref, (b"a", b"1"), sequence=1)
    files.failing_sync = lambda path: path.parent.name == "staging"
    with pytest.raises(UnknownOutcomeError):
        store.stage(ref, (b"b", b"2"), sequence=2)
    files.failing_sync = lambda _: False
    store.crash()
    store.stage(ref, (b"b", b"2"), sequence=2)
    assert store.commit(ref).row_count == 2
    assert store.content() == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize("spills_at", [0, 2000])
def test_a_bulk_write_with_a_missing_batch_has_ended_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spills_at: int
) -> None:
    store = Store(tmp_path / "data", spills_at=spills_at)
    store.server.create_table("t", FAMILIES)
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    (path,) = store.folder.glob("staging/*/batch-00000002")
    path.unlink()
    store.crash()
    assert str(path) in caplog.text
    with pytest.raises(SessionEndedError):
        store.commit(ref)
    assert store.content() == {}


def test_what_is_left_of_a_bulk_write_whose_removal_failed_does_not_count(
    store: Store, files: FailingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = store.session()
    store.stage(ref, *everywhere(b"1"))
    remove = files.remove_if_there

    def remove_few(path: Path) -> None:
        if path.name == "batch-00000003":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        remove(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove_if_there", remove_few)
        store.server.clients.sessions.end(ref, "a test")
    assert list(store.folder.glob("staging/*/batch-*"))
    assert not list(store.folder.glob("staging/*/write"))
    store.crash()
    assert store.staging == []


def test_a_failed_sync_of_the_staging_folder_is_final(store: Store, files: FailingFiles) -> None:
    ref = store.server.clients.sessions.open("job", "ana").ref
    files.failing_sync = lambda path: path.name == "staging"
    with pytest.raises(OSError, match="error"):
        store.server.bulk_writes.open(ref, store.server.table("t"))
    files.failing_sync = lambda _: False
    with pytest.raises(StoppingError):
        store.server.bulk_writes.open(ref, store.server.table("t"))


def test_two_calls_that_open_a_bulk_write_at_once_open_one(store: Store, files: FailingFiles) -> None:
    """A client repeats the call if the first one takes long."""
    table, ref = store.server.table("t"), store.server.clients.sessions.open("job", "ana").ref
    files.may_make_folder = may_make = threading.Event()
    numbers: list[int] = []
    calls = [
        threading.Thread(target=lambda: numbers.append(store.server.bulk_writes.open(ref, table))) for _ in range(2)
    ]
    for call in calls:
        call.start()
        assert files.makes_folder.wait(WAIT_S)
    calls[1].join(0.2)
    may_make.set()
    for call in calls:
        call.join(WAIT_S)
    assert len(numbers) == 2
    assert len(set(numbers)) == 1
    store.stage(ref, (b"a", b"1"))
    assert store.commit(ref).row_count == 1
    assert store.content() == {b"a": b"1"}
    assert store.staging == []


def test_without_descriptors_a_commit_is_made_and_its_folder_is_removed_later(
    store: Store, files: FailingFiles
) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    files.scarce = lambda path: path.parent.name == "staging"
    assert store.commit(ref).row_count == 1
    files.scarce = lambda _: False
    assert store.content() == {b"a": b"1"}
    assert store.staging != []
    store.crash()
    assert store.staging == []
    assert store.content() == {b"a": b"1"}


def test_without_descriptors_an_aborted_write_leaves_no_bulk_files(store: Store, files: FailingFiles) -> None:
    ref = store.session()
    store.stage(ref, (b"a", b"1"))
    files.scarce = lambda path: path.parent.name == "staging"
    store.server.bulk_writes.abort(ref, store.server.table("t"))
    assert store.bulk_files == []


def test_without_descriptors_a_named_snapshot_is_dropped(store: Store, files: FailingFiles) -> None:
    """Its folders are removed by the next start."""
    store.put(b"a", b"1")
    store.server.create_named_snapshot("monday", "t")
    files.scarce = lambda path: path.parent.name == "regions"
    store.server.drop_named_snapshot("monday")
    files.scarce = lambda _: False
    store.put(b"b", b"2")
    store.crash()
    assert store.content() == {b"a": b"1", b"b": b"2"}
