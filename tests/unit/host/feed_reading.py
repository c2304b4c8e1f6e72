"""Reads the change feed of a table of a region server, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from rowlock_regionserver.cells import Family
from rowlock_regionserver.clock import ManualClock
from rowlock_regionserver.host.changes import ChangesAnswer, ChangesCall, Start, read_changes
from rowlock_regionserver.host.region_server import RegionServer
from rowlock_regionserver.operations import Put, RequestId

from .serving_table import Serving

HOUR_MS = 3_600_000
FAMILIES = [Family(0, b"f"), Family(0, b"g", versions=3)]
FEED = {"changes_retained_hours": "1"}


class Fed(Serving):
    """Table `t` with a change feed of one hour."""

    def __init__(self, folder: Path, properties: Mapping[str, str] = FEED) -> None:
        super().__init__(folder)
        self.server.stop()
        self.clock = ManualClock(now_ms=self.clock.now_ms())  # a clock that the test moves
        self.server = self.open()
        self.server.create_table("fed", FAMILIES, properties=properties)
        self.name = "fed"

    def open(self) -> RegionServer:
        return RegionServer.open(self.folder, self.config, self.clock, self.files, lambda error: None)

    def split(self, row: bytes | None) -> None:
        region = self.regions[0] if row is None else self.region_of(row)
        self.server.split_region(self.name, region.region_id, row)

    def merge(self, place: int = 0) -> None:
        left, right = self.regions[place : place + 2]
        self.server.merge_regions(self.name, left.region_id, right.region_id)

    def put_all(self, *values: bytes, row: bytes = b"r", timestamp: int | None = None) -> None:
        for value in values:
            self.change(row, Put(b"f", b"q", value, timestamp), request=None)

    def pass_time(self, ms: int) -> None:
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(ms)
        for region in self.regions:
            region.note_time()

    def note_point(self) -> None:
        """Lets the regions note a point with everything that was written so far."""
        self.pass_time(HOUR_MS // 32)

    def answer(
        self,
        start: Mapping[int, int] | Start = Start.OLDEST,
        row: bytes = b"",
        *,
        until: int = 0,
        position: bytes = b"",
        until_region: int = 0,
        bytes_max: int = 0,
    ) -> ChangesAnswer:
        call = ChangesCall(self.name, start, row, until, position, until_region, bytes_max)
        return read_changes(self.server, call)

    @property
    def offset(self) -> dict[int, int]:
        """The offset of now."""
        return dict(self.answer(Start.NEWEST).offset)

    def read(
        self, start: Mapping[int, int] | Start = Start.OLDEST, bytes_max: int = 1 << 20
    ) -> tuple[list[dict[str, object]], dict[int, int]]:
        """Returns all changes since, and the offset after them."""
        changes: list[dict[str, object]] = []
        row: bytes | None = b""
        until = region_id = 0
        position = b""
        while row is not None:
            call = ChangesCall(self.name, start, row, until, position, region_id, bytes_max)
            answer = read_changes(self.server, call)
            assert answer.read is not None
            changes += answer.read.window.changes.to_pylist()
            place = answer.read.window.position
            start, region_id, until = answer.offset, answer.region_id, answer.read.until
            position = place.encode() if place is not None else b""
            if answer.read.is_done:
                row, until, region_id = answer.stop or None, 0, 0
        assert not isinstance(start, Start)
        return changes, dict(start)

    def values(self, start: Mapping[int, int] | Start = Start.OLDEST) -> list[object]:
        """Returns the values of all changes since, in order."""
        return [change["value"] for change in self.read(start)[0]]


def request(number: int) -> RequestId:
    """Returns the id of a change that may be repeated."""
    return RequestId(b"client of 16 byt", number, number)


def table_of(answer: ChangesAnswer) -> pa.Table:
    """Returns the changes of an answer."""
    assert answer.read is not None
    return answer.read.window.changes
