"""A file system of a few megabytes in memory, mounted for one child, which a server fills to the last byte."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import DiskFullError
from rowlock_regionserver.files import Files
from rowlock_regionserver.operations import Put
from rowlock_regionserver.wal import preallocated

from tests.crash.children import in_child
from tests.crash.driver import Driver, small_config
from tests.crash.life import difference
from tests.crash.steps import CreateTable, Flush, Rows, RowWrite

DISK_BYTES = 3 << 20
# Of <linux/sched.h> and <linux/mount.h>.
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18


def fill(root: Path) -> int | None:
    """Fills the disk, frees some space, kills the server and opens the folder again; None if not permitted."""
    root.mkdir()
    if not _mounted(root, DISK_BYTES):
        return None
    refusals, rows = in_child(lambda: _fill(root))
    problem = in_child(lambda: _reopened(root, rows))
    assert problem is None, problem
    return refusals


def _fill(root: Path) -> tuple[int, Rows]:
    """Writes until the disk is full, reads, frees space, and writes; returns the refusals and the expected rows."""
    preallocated.RETRY_SECONDS = 0.01
    ballast = root / "ballast"
    ballast.write_bytes(bytes(DISK_BYTES // 3))
    (root / "data").mkdir(mode=0o700)
    driver = Driver(root / "data", Files(), small_config(log_segment_bytes=64 * 1024))
    driver.do(0, CreateTable("t", (b"f",)))
    rows: Rows = {}
    refusals = after = 0
    for number in range(1, 1_000_000):
        row = b"%06d" % number
        try:
            driver.do(number, RowWrite("t", row, (Put(b"f", b"q", row * 500),), Durability.FSYNC))
            rows[row] = {b"f:q": row * 500}
            after += not ballast.exists()
            if number % 20 == 0:
                driver.do(number, Flush("t"))
        except DiskFullError:
            refusals += 1
            if refusals == 5:
                assert driver.read_all()["t"].rows == rows
                ballast.unlink()
        if after == 50:
            break
    assert not driver.fatal, driver.fatal
    assert driver.read_all()["t"].rows == rows
    return refusals, rows


def _reopened(root: Path, rows: Rows) -> str | None:
    """Checks after the kill that everything is there, and that a write is accepted."""
    driver = Driver(root / "data", Files(), small_config(log_segment_bytes=64 * 1024))
    found = driver.read_all()["t"].rows
    driver.do(1_000_000, RowWrite("t", b"last", (Put(b"f", b"q", b"v"),), Durability.FSYNC))
    return None if found == rows else difference(found, rows)


def _mounted(target: Path, byte_count: int) -> bool:
    """Mounts a file system of this size for this process and its children; returns False if not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWNS) and libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER) == 0:
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    before = os.stat(target).st_dev
    # Private, so that the mount is not seen outside, and ends with the last process here.
    libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    libc.mount(b"tmpfs", bytes(target), b"tmpfs", 0, b"size=%d" % byte_count)
    return os.stat(target).st_dev != before
