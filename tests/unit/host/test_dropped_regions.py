"""Log records of a table that was dropped or truncated pin no segment, however often the server starts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import Clock
from rowlock_regionserver.config import Config
from rowlock_regionserver.files import Files
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RowMutation, WriteOptions

from tests.unit.host.stopped_folder import cut_drop_short
from tests.unit.region.conftest import abandon
from tests.waiting import WAIT_S, wait_until

CONFIG = Config(log_segment_bytes=1 << 16, disk_free_bytes_min=0)
VALUE = b"a value to be found in the log"


def opened(folder: Path) -> RegionServer:
    fatal: list[BaseException] = []
    return RegionServer.open(folder, CONFIG, Clock(), Files(), fatal.append)


def put(server: RegionServer, table: str, value: bytes) -> None:
    (region,) = server.regions_of(table)
    mutation = RowMutation(b"r", (Put(b"f", b"q", value),))
    told = threading.Event()
    region.mutate([mutation], WriteOptions(time.monotonic() + WAIT_S), lambda _: told.set(), may_wait=True)
    assert told.wait(WAIT_S)


def holds_value(folder: Path) -> bool:
    for path in (folder / "log").glob("*.wal"):
        with contextlib.suppress(FileNotFoundError):  # It has just been removed.
            if VALUE in path.read_bytes():
                return True
    return False


@pytest.mark.parametrize("end", [RegionServer.stop, abandon])
@pytest.mark.parametrize("operation", [RegionServer.drop_table, RegionServer.truncate_table])
def test_after_a_start_the_log_does_not_keep_the_changes_of_removed_regions(
    tmp_path: Path,
    operation: Callable[[RegionServer, str], object],
    end: Callable[[RegionServer], object],
) -> None:
    server = opened(tmp_path)
    server.create_table("t", [Family(0, b"f")])
    server.create_table("u", [Family(0, b"f")])
    put(server, "t", VALUE)
    operation(server, "t")
    # The last marker does not name the removed region, and the segment with its change is still there.
    end(server)
    assert holds_value(tmp_path)

    server = opened(tmp_path)
    for _ in range(2):  # Enough for the log cleaner to get another segment.
        put(server, "u", b"v" * 40_000)
    server.flush("u")
    wait_until(lambda: not holds_value(tmp_path))
    server.stop()


def test_after_two_crashes_the_log_does_not_keep_the_changes_of_a_region_whose_drop_was_cut_short(
    tmp_path: Path,
) -> None:
    server = opened(tmp_path)
    server.create_table("t", [Family(0, b"f")])
    server.create_table("u", [Family(0, b"f")])
    put(server, "u", b"kept by the segment too")
    put(server, "t", VALUE)
    abandon(server)
    cut_drop_short(tmp_path, "t")
    abandon(opened(tmp_path))
    server = opened(tmp_path)
    assert holds_value(tmp_path)
    put(server, "u", b"v" * 40_000)
    server.flush("u")
    wait_until(lambda: not holds_value(tmp_path))
    server.stop()
