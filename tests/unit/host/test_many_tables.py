"""Of many tables each put costs the log its record, and each marker names those that were written since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.config import Config
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.wal.marker import marker_size

from tests.crash.simulated_files import UnsyncedFiles
from tests.unit.region.conftest import abandon
from tests.waiting import wait_until

from .table_of_regions import TableOfRegions

MANY = 200
_HEADER_BYTES = 48  # of a record; what follows is padded to 8


class Tables:
    """A server with some tables, of which each gets a put."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.clock = ManualClock()
        folder.mkdir(exist_ok=True)
        self.server = self.open()
        for number in range(count):
            self.server.create_table(f"t{number}", [Family(0, b"f")])
        self.put()  # The first put of a table reserves write numbers.

    def open(self) -> RegionServer:
        config = Config(disk_free_bytes_min=0, log_idle_marker_ms=100)
        return RegionServer.open(self.folder, config, self.clock, UnsyncedFiles(), lambda error: None)

    def put(self) -> int:
        """Puts a row into each table. Returns the bytes of the log that this has added."""
        before = self.server.statistics().log.appended_bytes
        for number in range(self.count):
            TableOfRegions(self.server, f"t{number}").put(b"row", b"v" * 100)
        return self.server.statistics().log.appended_bytes - before

    def marker(self) -> int:
        """Lets the log become idle. Returns the bytes of the marker that this has added."""
        before = self.server.statistics().log.appended_bytes
        pending = self.server._log._pending
        self.clock.advance(1000)
        wait_until(lambda: pending._marker_end == pending.end())
        return self.server.statistics().log.appended_bytes - before


@pytest.fixture(params=[lambda tables: tables.server.stop(), lambda tables: abandon(tables.server)])
def ended(request: pytest.FixtureRequest) -> Callable[[Tables], None]:
    """How the server ends: in order, or by a crash."""
    found: Callable[[Tables], None] = request.param
    return found


def test_a_put_in_each_of_many_tables_costs_what_it_costs_with_one(
    tmp_path: Path, ended: Callable[[Tables], None]
) -> None:
    one, many = Tables(tmp_path / "one", 1), Tables(tmp_path / "many", MANY)
    record = one.put()
    assert many.put() == MANY * record
    ended(many)
    many.server = many.open()
    many.put()
    assert many.put() == MANY * record
    for tables in (one, many):
        tables.server.stop()


def test_a_marker_names_the_tables_that_were_written_and_no_others(tmp_path: Path) -> None:
    many = Tables(tmp_path, MANY)
    many.marker()
    TableOfRegions(many.server, "t7").put(b"row", b"v")
    assert many.marker() <= _HEADER_BYTES + marker_size(1) + 7
    many.put()
    assert many.marker() <= _HEADER_BYTES + marker_size(MANY) + 7
    many.server.stop()
