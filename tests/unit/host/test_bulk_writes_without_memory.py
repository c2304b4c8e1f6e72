"""A lack of memory in a bulk write: a batch or a commit is refused whole, made whole, or the server ends."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from rowlock_regionserver.errors import OutOfMemoryError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host import spilling
from rowlock_regionserver.host.staging import StagedContents
from rowlock_regionserver.region.bulk import bulk_load, spilled
from rowlock_regionserver.region.live_files import LiveFiles

from tests.unit.host.bulk_store import FAMILIES, Store


class WithoutMemory(Files):
    """Lacks memory in one call on paths with a text, and then for each removal but those of the log.

    A lack of memory in the log's threads ends the server.
    """

    def __init__(self) -> None:
        self.failing = ("", "")  # the call, and the text
        self.removes = True

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", target)
        super().rename(source, target)

    def list_folder(self, path: Path) -> list[str]:
        self._check("list_folder", path)
        return super().list_folder(path)

    def remove(self, path: Path) -> None:
        if not self.removes and path.parent.name != "log":
            raise MemoryError
        super().remove(path)

    def _check(self, call: str, path: Path) -> None:
        name, text = self.failing
        if call == name and text in str(path):
            self.removes = False
            raise MemoryError

    def recover(self) -> None:
        self.failing, self.removes = ("", ""), True


def files_of_spills(store: Store) -> list[str]:
    return sorted(each.name for each in (store.folder / "staging").rglob("*.store"))


def filled(tmp_path: Path, spills_at: int) -> tuple[Store, WithoutMemory]:
    files = WithoutMemory()
    store = Store(tmp_path / "data", files=files, spills_at=spills_at)
    store.server.create_table("t", FAMILIES)
    return store, files


@pytest.mark.parametrize("spills_at", [0, 1])
def test_a_commit_that_can_not_even_remove_its_files_is_refused_and_good_later(tmp_path: Path, spills_at: int) -> None:
    """A number of it was left incomplete, for which the next flush or commit waited forever."""
    store, files = filled(tmp_path, spills_at)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    files.failing = ("rename", "/catalog-")
    with pytest.raises(OutOfMemoryError):
        store.commit(ref, staged_batches=numbers)
    files.recover()
    assert store.content() == {}
    assert store.commit(ref, staged_batches=numbers).row_count == 3
    store.crash()
    assert store.content() == {b"a": b"1", b"b": b"1", b"c": b"1"}


def test_a_commit_that_can_not_be_taken_back_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(_: LiveFiles) -> None:
        raise MemoryError

    store, files = filled(tmp_path, 1)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"))
    files.failing = ("rename", "/catalog-")
    with monkeypatch.context() as patched:
        patched.setattr(LiveFiles, "withdraw", no_memory)
        with pytest.raises(UnknownOutcomeError):
            store.commit(ref, staged_batches=numbers)
    files.recover()
    store.crash()
    assert store.commit(ref, staged_batches=numbers).row_count == 2


@pytest.mark.parametrize("spills_at", [0, 1])
def test_a_lack_of_memory_behind_the_commit_takes_nothing_back(tmp_path: Path, spills_at: int) -> None:
    """It was refused, and its files were removed, but the catalog had it: the next start closed the regions."""
    store, files = filled(tmp_path, spills_at)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    files.failing = ("list_folder", "/catalog")
    assert store.commit(ref, staged_batches=numbers).row_count == 3
    files.recover()
    for _ in range(2):
        assert store.content() == {b"a": b"1", b"b": b"1", b"c": b"1"}
        store.crash()


@pytest.mark.parametrize(
    ("where", "step"),
    [(bulk_load, "write_bulk_file"), (spilling, "read_staged_file"), (spilled, "write_store_file")],
    ids=["encode", "read", "merge"],
)
def test_a_batch_that_can_not_be_staged_is_refused_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: ModuleType, step: str
) -> None:
    """The client had an error of unknown outcome, and did not repeat the batch."""

    def no_memory(*_: object, **named: object) -> None:
        raise MemoryError

    store, _ = filled(tmp_path, 1)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"))
    there = store.bulk_files, files_of_spills(store)
    with monkeypatch.context() as patched:
        patched.setattr(where, step, no_memory)
        with pytest.raises(OutOfMemoryError) as refused:
            store.stage(ref, (b"b", b"1"))
    assert refused.value.can_retry
    assert (store.bulk_files, files_of_spills(store)) == there
    numbers += store.stage(ref, (b"b", b"1"))
    store.crash()
    assert store.commit(ref, staged_batches=numbers).row_count == 2
    assert store.content() == {b"a": b"1", b"b": b"1"}


def test_a_batch_that_is_durable_but_not_noted_keeps_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bulk file was removed, so after a restart the commit was refused for it."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    store, _ = filled(tmp_path, 0)
    ref = store.session()
    numbers = store.stage(ref, (b"a", b"1"), sequence=1)
    with monkeypatch.context() as patched:
        patched.setattr(StagedContents, "add", no_memory)
        with pytest.raises(UnknownOutcomeError):
            store.stage(ref, (b"b", b"1"), sequence=2)
    store.crash()
    numbers += store.stage(ref, (b"b", b"1"), sequence=2)
    assert numbers == [1, 2]
    assert store.commit(ref, staged_batches=numbers).row_count == 2
