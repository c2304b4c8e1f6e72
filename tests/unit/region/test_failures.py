"""Failures after a change is logged, or during a flush: they end the server, or change nothing."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from rowlock_regionserver.cells import Durability
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import (
    CorruptionError,
    DiskFullError,
    NotServingRegionError,
    OutOfMemoryError,
    RegionServerError,
    UnknownOutcomeError,
)
from rowlock_regionserver.files import Files
from rowlock_regionserver.memstore.memstore import Memstore
from rowlock_regionserver.operations import Put
from rowlock_regionserver.region import flush
from rowlock_regionserver.region.bulk import bulk_load
from rowlock_regionserver.region.live_files import LiveFiles
from rowlock_regionserver.storefile.reader import StoreFile

from tests.waiting import wait_until

from .conftest import Engine, abandon, bulk_batch

LARGE = bulk_batch(*[(b"%04d" % i, b"fg"[i % 2 :][:1], b"q", None, b"v" * 100) for i in range(100)])
SMALL = bulk_batch(*[(b"%04d" % i, b"fg"[i % 2 :][:1], b"q", None, b"v") for i in range(10)])


def running(folder: Path, files: Files | None = None, config: Config | None = None) -> Engine:
    config = config or Config(bulk_file_bytes_min=4096)
    return Engine(folder, config, Clock(), files or Files(), Durability.OS)


def no_memory(*_: object, **named: object) -> int:
    raise MemoryError


def test_a_change_that_is_logged_and_can_not_be_applied_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = running(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Memstore, "apply", no_memory)
        with pytest.raises(MemoryError):
            engine.change(b"r", Put(b"f", b"q", b"v"))
    assert [type(error) for error in engine.fatal] == [MemoryError]
    with pytest.raises(NotServingRegionError):
        engine.cells(b"r")
    engine.fatal.clear()
    engine.crash()
    assert len(engine.scan()) == 1, "it is in the log"
    engine.server.stop()


@pytest.mark.parametrize(("batch", "part"), [(LARGE, "add_segment"), (SMALL, "apply")], ids=["large", "small"])
def test_a_bulk_batch_that_can_not_be_applied_is_not_logged_and_changes_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, batch: pa.Table, part: str
) -> None:
    apply = getattr(Memstore, part)
    calls: list[object] = []

    def fail_the_second_time(*arguments: object) -> object:
        calls.append(arguments)
        return apply(*arguments) if len(calls) == 1 else no_memory()

    engine.change(b"0000", Put(b"f", b"q", b"before"))
    held = engine.server.statistics().memstore_bytes
    records = engine.server.statistics().log.appended_records
    with monkeypatch.context() as patched:
        patched.setattr(Memstore, part, fail_the_second_time)
        with pytest.raises(OutOfMemoryError):
            engine.bulk(batch)
    assert engine.fatal == []
    assert engine.server.statistics().memstore_bytes == held
    assert engine.server.statistics().log.appended_records == records
    assert [cell[4] for cell in engine.scan()] == [b"before"]
    engine.bulk(batch)
    assert len(engine.scan()) == batch.num_rows
    engine.crash()
    assert len(engine.scan()) == batch.num_rows


def test_a_bulk_batch_that_can_not_be_arranged_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(bulk_load, "arrange", no_memory)
        with pytest.raises(OutOfMemoryError):
            engine.bulk(LARGE)
    assert engine.scan() == []
    engine.bulk(LARGE)
    assert len(engine.scan()) == LARGE.num_rows


def test_a_flush_thread_that_meets_the_unexpected_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object, **named: object) -> int:
        raise ZeroDivisionError

    engine = running(tmp_path, config=Config(memstore_flush_bytes=10_000))
    monkeypatch.setattr(flush, "retained_tables", unexpected)
    with contextlib.suppress(RegionServerError):  # It ends in the middle of them.
        for i in range(200):
            engine.change(b"%d" % i, Put(b"f", b"q", b"v" * 100))
    wait_until(lambda: bool(engine.fatal))
    assert [type(error) for error in engine.fatal] == [ZeroDivisionError]
    abandon(engine.server)


def test_a_flush_thread_without_memory_logs_it_once_and_flushes_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the server."""
    attempts: list[None] = []

    def no_memory_yet(*_: object, **named: object) -> int:
        attempts.append(None)
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    engine = running(tmp_path, config=Config(memstore_flush_bytes=10_000))
    with monkeypatch.context() as patched:
        patched.setattr(flush, "retained_tables", no_memory_yet)
        for i in range(200):
            engine.change(b"%d" % i, Put(b"f", b"q", b"v" * 100))
        wait_until(lambda: len(attempts) > 1)
    wait_until(lambda: bool(list(engine.folder.rglob("*.store"))))
    assert engine.fatal == []
    assert caplog.text.count("could not be flushed") == 1
    assert "malloc of size 1 failed" in caplog.text
    engine.crash()
    assert len(engine.scan()) == 200
    engine.server.stop()


@pytest.mark.parametrize(("where", "step"), [(Memstore, "switch"), (LiveFiles, "_publish")], ids=["seal", "publish"])
def test_a_lack_of_memory_where_a_flush_can_not_be_repeated_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, step: str
) -> None:
    engine = running(tmp_path)
    engine.change(b"r", Put(b"f", b"q", b"v"))
    with monkeypatch.context() as patched:
        patched.setattr(where, step, no_memory)
        with pytest.raises(UnknownOutcomeError, match="lacked memory"):
            engine.server.flush("t")
    assert len(engine.fatal) == 1
    engine.fatal.clear()
    engine.crash()
    assert len(engine.scan()) == 1
    engine.server.stop()


def test_a_store_file_that_can_not_be_opened_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> StoreFile:
        raise CorruptionError("a file", 0, "what was written", "something else")

    engine.change(b"r", Put(b"f", b"q", b"1"), Put(b"g", b"q", b"1"))
    with monkeypatch.context() as patched:
        patched.setattr(StoreFile, "open", damaged)
        with pytest.raises(CorruptionError):
            engine.region.flush()
    assert list(engine.folder.rglob("*.store")) == []
    assert engine.region.flush().store_file_count == 2
    engine.restart()
    assert engine.values(b"r") == {b"f:q": b"1", b"g:q": b"1"}


class NoSpaceForManifests(Files):
    is_full = False

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if self.is_full and path.name.startswith("manifest") and flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return super().open(path, flags, mode)


def test_a_flush_without_space_for_its_manifest_removes_its_files(tmp_path: Path) -> None:
    files = NoSpaceForManifests()
    engine = running(tmp_path, files)
    engine.change(b"r", Put(b"g", b"q", b"1"))
    files.is_full = True
    with pytest.raises(DiskFullError):
        engine.server.flush("t")
    assert list(tmp_path.rglob("*.store")) == []
    files.is_full = False
    engine.restart()
    assert engine.values(b"r") == {b"g:q": b"1"}
    engine.server.stop()
    assert engine.fatal == []


class LittleSpace(Files):
    free: int | None = None

    def free_bytes(self, path: Path) -> int:
        return super().free_bytes(path) if self.free is None else self.free


def test_bulk_files_leave_the_space_that_flushes_need(tmp_path: Path) -> None:
    files = LittleSpace()
    engine = running(tmp_path, files)
    files.free = engine.config.disk_free_bytes_min + 1000
    with pytest.raises(DiskFullError):
        engine.bulk(LARGE)
    assert list((tmp_path / "bulk").iterdir()) == []
    assert engine.scan() == []
    files.free = None
    engine.bulk(LARGE)
    assert len(engine.scan()) == 100
    engine.server.stop()
