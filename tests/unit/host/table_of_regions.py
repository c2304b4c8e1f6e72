"""A table of a region server without a network, by rows: each call goes to the region that has the row."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.errors import RegionServerError
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import (
    Change,
    Put,
    RequestId,
    RowMutation,
    RowOutcome,
    RowResult,
    ScanPlan,
    Selection,
    WriteOptions,
)
from rowlock_regionserver.region.region import Region
from rowlock_regionserver.scan.scanner import Scan

from tests.waiting import WAIT_S


@dataclass
class TableOfRegions:
    """Table `name` of a server, which the caller may replace after a restart."""

    server: RegionServer
    name: str = "t"

    @property
    def regions(self) -> list[Region]:
        return self.server.regions_of(self.name)

    @property
    def bounds(self) -> list[tuple[bytes, bytes]]:
        """The bounds of the regions that the catalog names."""
        (entry,) = [entry for entry in self.server.table_entries if entry.table.name == self.name]
        return [(region.start, region.stop) for region in entry.regions]

    def region_of(self, row: bytes) -> Region:
        (region,) = self.server.regions_of(self.name, row, row + b"\0")
        return region

    def change(self, row: bytes, *changes: Change, request: RequestId | None = None) -> RowResult:
        """Changes one row; returns when it is published. Raises the refusal."""
        outcomes: list[RowOutcome] = []
        is_done = threading.Event()

        def done(found: list[RowOutcome]) -> None:
            outcomes.extend(found)
            is_done.set()

        options = WriteOptions(self.server._shared.clock.monotonic() + WAIT_S, Durability.FSYNC)
        self.region_of(row).mutate([RowMutation(row, changes, request=request)], options, done, may_wait=True)
        assert is_done.wait(WAIT_S)
        (outcome,) = outcomes
        if isinstance(outcome, RegionServerError):
            raise outcome
        return outcome

    def put(self, row: bytes, value: bytes, timestamp: int | None = None, family: bytes = b"f") -> RowResult:
        return self.change(row, Put(family, b"q", value, timestamp))

    def scan(self, plan: ScanPlan | None = None, snapshot_id: bytes = b"") -> list[tuple[bytes, bytes]]:
        """(row, value) of a scan of all regions, one after the other, in the plan's direction."""
        plan = plan or ScanPlan()
        found: list[tuple[bytes, bytes]] = []
        for region in reversed(self.regions) if plan.reverse else self.regions:
            scanned = self.server.region_at(region.region_id, snapshot_id) if snapshot_id else region
            with scanned.scan(plan) as (_, answers):
                found += cells_of(answers)
        return found

    def get(self, row: bytes, selection: Selection | None = None) -> list[bytes]:
        """The values of a row."""
        found = self.region_of(row).get([row], selection or Selection(), may_wait=True)
        assert found is not None
        return [value for _, _, _, value in found[0]]


def cells_of(answers: Scan) -> list[tuple[bytes, bytes]]:
    """(row, value) of the cells."""
    return [(cell["row"], cell["value"]) for answer in answers for cell in answer.table.to_pylist()]


def numbered_rows(count: int, step: int = 1) -> Sequence[bytes]:
    """Rows r000000, r000001 and so on."""
    return [b"r%06d" % number for number in range(0, count, step)]
