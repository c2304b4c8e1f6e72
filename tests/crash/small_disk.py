"""A file system of a few megabytes in memory, mounted for one child, which a server fills to the last byte."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import time
from collections.abc import Callable
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
VALUE_BYTES = 3000
WAIT_SECONDS = 120.0
# Mounts a file system of a size; False when that is not permitted.
Mount = Callable[[Path, int], bool]
# Of <linux/sched.h> and <linux/mount.h>.
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18


def mounted(target: Path, byte_count: int) -> bool:
    """Mounts a file system of this size, seen by this process and its children alone; False when not permitted."""
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


def fill(root: Path, byte_count: int = DISK_BYTES, mount: Mount = mounted) -> int | None:
    """Fills the disk, frees some of it, kills the server and opens the folder again. None: not permitted.

    ChildFailedError: what was wrong, which may be that the disk takes more than it has, or does not recover.
    """
    root.mkdir()
    if not mount(root, byte_count):
        return None
    refusals, rows = in_child(lambda: _fill(root, byte_count))
    problem = in_child(lambda: _reopened(root, rows))
    assert problem is None, problem
    return refusals


def _fill(root: Path, byte_count: int) -> tuple[int, Rows]:
    """Writes until the disk is full, reads, removes a ballast, and writes on; the refusals, and what must be there."""
    preallocated.RETRY_SECONDS = 0.01
    ballast = root / "ballast"
    ballast.write_bytes(bytes(byte_count // 3))
    (root / "data").mkdir(mode=0o700)
    driver = Driver(root / "data", Files(), small_config(log_segment_bytes=64 * 1024))
    driver.do(0, CreateTable("t", (b"f",)))
    rows: Rows = {}
    refusals = after = 0
    freed_at = math.inf
    number = 0
    while after < 50:
        assert len(rows) * VALUE_BYTES <= byte_count, f"a disk of {byte_count} bytes took more, and was never full"
        assert time.monotonic() < freed_at + WAIT_SECONDS, "writes are refused though there is space again"
        number += 1
        row = b"%06d" % number
        value = row * (VALUE_BYTES // len(row))
        try:
            driver.do(number, RowWrite("t", row, (Put(b"f", b"q", value),), Durability.FSYNC))
            rows[row] = {b"f:q": value}
            after += not ballast.exists()
            if number % 20 == 0:
                driver.do(number, Flush("t"))
        except DiskFullError:
            refusals += 1
            if refusals == 5:
                assert driver.read_all()["t"].rows == rows
                ballast.unlink()
                freed_at = time.monotonic()
    assert not driver.fatal, driver.fatal
    assert driver.read_all()["t"].rows == rows
    return refusals, rows


def _reopened(root: Path, rows: Rows) -> str | None:
    """After the kill: everything is there, and a write is taken."""
    driver = Driver(root / "data", Files(), small_config(log_segment_bytes=64 * 1024))
    found = driver.read_all()["t"].rows
    driver.do(1_000_000, RowWrite("t", b"last", (Put(b"f", b"q", b"v"),), Durability.FSYNC))
    return None if found == rows else difference(found, rows)
