"""A table operation that fails after its commit has an unknown outcome; one that fails before has changed nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.errors import DiskFullError, StoppingError, TooManyOpenFilesError, UnknownOutcomeError
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_changes import RegionChanges
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RowMutation, WriteOptions
from rowlock_regionserver.region.altering import Altering
from rowlock_regionserver.wal.log import Log

from tests.crash.simulated_files import Call, Loss, SimulatedFiles
from tests.unit.host.stopped_folder import CONFIG, FAMILIES, opened, put
from tests.waiting import WAIT_S

OPERATIONS: Mapping[str, Callable[[RegionServer], object]] = {
    "create": lambda server: server.create_table("u", FAMILIES),
    "alter": lambda server: server.alter_table("t", [Family(0, b"h")]),
    "truncate": lambda server: server.truncate_table("t"),
    "drop": lambda server: server.drop_table("t"),
}


class Serving:
    """A server with one table of one row, on a disk that can fail."""

    def __init__(self, folder: Path) -> None:
        self.disk = SimulatedFiles(folder / "disk")
        self.fatal: list[BaseException] = []
        self.server = RegionServer.open(self.disk.root, CONFIG, Clock(), self.disk, self.fatal.append)
        self.server.create_table("t", FAMILIES)
        put(self.server, "t", b"r")
        self.before = self.state(self.server)

    def state(self, server: RegionServer) -> list[tuple[str, int, int]]:
        """Each table with its number of families, and the id of its region."""
        return [
            (table.name, len(table.families), server.regions_of(table.name)[0].region_id) for table in server.tables()
        ]

    def fail_after_commit(self, call_name: str, folder: str, error_number: int) -> None:
        """Makes calls of this name fail in this folder after the catalog's next generation."""
        committed: list[Call] = []

        def fail(call: Call) -> None:
            if call.name == "rename" and call.path.parent.name == "catalog":
                committed.append(call)
            if committed and call.name == call_name and folder in call.path.relative_to(self.disk.root).parts:
                raise OSError(error_number, os.strerror(error_number), str(call.path))

        self.disk.before_call = fail

    def fail_in(self, folder: str, error_number: int) -> None:
        """From now on all calls fail in this folder."""

        def fail(call: Call) -> None:
            if folder in call.path.relative_to(self.disk.root).parts:
                raise OSError(error_number, os.strerror(error_number), str(call.path))

        self.disk.before_call = fail

    def after_restart(self, folder: Path) -> list[tuple[str, int, int]]:
        image = self.disk.power_failure(folder / "image", Loss.NOTHING)
        server = opened(image)
        state = self.state(server)
        server.stop()
        return state

    def end(self) -> None:
        self.disk.before_call = lambda call: None
        self.server.stop()


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path)


@pytest.mark.parametrize("call_name", ["fdatasync", "pwrite"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_log_that_fails_just_after_the_commit_leaves_the_outcome_unknown(
    serving: Serving, tmp_path: Path, operation: str, call_name: str
) -> None:
    serving.fail_after_commit(call_name, "log", errno.EIO)
    with pytest.raises(UnknownOutcomeError) as raised:
        OPERATIONS[operation](serving.server)
    assert "nothing was changed" not in raised.value.message
    assert len(serving.fatal) == 1, "the server ends"
    assert serving.after_restart(tmp_path) != serving.before, "it was done"
    with pytest.raises(StoppingError):
        OPERATIONS[operation](serving.server)
    serving.end()


STEPS_AFTER_COMMIT: Sequence[tuple[str, type, str]] = [
    *[(operation, Log, "note_catalog") for operation in OPERATIONS],
    ("create", RegionChanges, "serve"),
    ("alter", Altering, "alter"),
    ("truncate", RegionChanges, "serve"),
    ("truncate", RegionChanges, "remove"),
    ("drop", RegionChanges, "remove"),
]


@pytest.mark.parametrize("error", [MemoryError(), StoppingError("the log is closed; nothing was changed")], ids=repr)
@pytest.mark.parametrize(("operation", "where", "step"), STEPS_AFTER_COMMIT)
def test_whatever_fails_just_after_the_commit_leaves_the_outcome_unknown_and_ends_the_server(
    serving: Serving,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    where: type,
    step: str,
    error: Exception,
) -> None:
    """Unexpected errors too: else the server would continue with tables that differ from its catalog."""

    def fails(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(where, step, fails)
        with pytest.raises(UnknownOutcomeError, match="but then the server failed"):
            OPERATIONS[operation](serving.server)
    assert len(serving.fatal) == 1, "the server ends"
    assert serving.after_restart(tmp_path) != serving.before, "it was done"
    with pytest.raises(StoppingError):
        OPERATIONS[operation](serving.server)
    serving.end()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_log_that_has_failed_before_the_commit_leaves_it_undone_or_unknown(
    serving: Serving, tmp_path: Path, operation: str
) -> None:
    serving.fail_in("log", errno.EIO)
    (region,) = serving.server.regions_of("t")
    mutation = RowMutation(b"s", (Put(b"f", b"q", b"v"),))
    # Its record fails, and nobody knows yet.
    region.mutate([mutation], WriteOptions(Clock().monotonic() + WAIT_S), lambda _: None, may_wait=True)
    try:
        OPERATIONS[operation](serving.server)
    except UnknownOutcomeError:
        assert serving.after_restart(tmp_path) != serving.before
    except StoppingError:
        assert serving.after_restart(tmp_path) == serving.before
    else:
        pytest.fail("acknowledged by a log that has failed")
    serving.end()


def test_a_new_region_that_can_not_be_opened_changes_nothing(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SimulatedFiles.read

    def read(self: SimulatedFiles, path: Path) -> bytes:
        if path.parent.name == "2":
            raise TooManyOpenFilesError("no file descriptor is left")
        return real(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedFiles, "read", read)
        with pytest.raises(TooManyOpenFilesError):
            serving.server.create_table("u", FAMILIES)
    assert serving.fatal == []
    assert [table.name for table in serving.server.tables()] == ["t"]
    serving.server.create_table("u", FAMILIES)
    assert [name for name, *_ in serving.after_restart(tmp_path)] == ["t", "u"]
    serving.end()


@pytest.mark.parametrize("operation", ["truncate", "drop"])
@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC, errno.EACCES])
def test_the_next_start_removes_files_that_could_not_be_removed(
    serving: Serving, tmp_path: Path, operation: str, error_number: int
) -> None:
    serving.fail_after_commit("remove", "regions", error_number)
    OPERATIONS[operation](serving.server)
    assert serving.fatal == []
    assert (serving.disk.root / "regions" / "1").exists()
    state = serving.state(serving.server)
    serving.end()
    server = opened(serving.disk.root, Files())
    assert serving.state(server) == state
    assert not (serving.disk.root / "regions" / "1").exists()
    server.stop()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_disk_that_is_full_before_the_commit_leaves_it_undone(serving: Serving, operation: str) -> None:
    def full(call: Call) -> None:
        if call.name == "pwrite" and "catalog" in call.path.relative_to(serving.disk.root).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(call.path))

    serving.disk.before_call = full
    with pytest.raises(DiskFullError):
        OPERATIONS[operation](serving.server)
    assert serving.state(serving.server) == serving.before
    assert serving.fatal == []
    serving.end()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_it_is_answered_when_the_log_has_noted_it_durably(serving: Serving, tmp_path: Path, operation: str) -> None:
    OPERATIONS[operation](serving.server)
    image = serving.disk.power_failure(tmp_path / "image", Loss.ALL)
    newest = sorted((image / "catalog").iterdir())[-1]
    newest.unlink()
    with pytest.raises(Exception, match=newest.name):
        opened(image)
    serving.end()
