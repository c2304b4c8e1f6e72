"""A file is synced in a thread, one sync at a time, and no more after a failure."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest
from rowlock_regionserver.files import Files
from rowlock_regionserver.storefile.background_sync import BackgroundSync


class SlowFiles(Files):
    """Each sync waits for the event `let_go`. Then it succeeds, or fails with `error_number`."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.count = 0
        self.error_number = 0

    def fdatasync(self, descriptor: int) -> None:
        self.count += 1
        assert self.let_go.wait(10)
        if self.error_number:
            raise OSError(self.error_number, os.strerror(self.error_number))


def test_one_sync_runs_at_a_time_and_starting_another_one_never_waits() -> None:
    files = SlowFiles()
    sync = BackgroundSync(files, 7)
    sync.start()
    sync.start()
    files.let_go.set()
    sync.wait()
    assert files.count == 1
    sync.start()
    sync.wait()
    assert files.count == 2


@pytest.mark.parametrize("report", [BackgroundSync.start, BackgroundSync.wait])
def test_a_failure_is_reported_each_time_and_the_file_is_not_synced_again(
    report: Callable[[BackgroundSync], None],
) -> None:
    files = SlowFiles()
    files.error_number = errno.EIO
    files.let_go.set()
    sync = BackgroundSync(files, 7)
    sync.start()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync.wait()
    for _ in range(2):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            report(sync)
    assert files.count == 1


def test_without_a_thread_the_sync_is_left_to_the_end_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    files = SlowFiles()
    sync = BackgroundSync(files, 7)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        sync.start()
    sync.wait()
    assert files.count == 0
