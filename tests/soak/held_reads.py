"""Reads that stay open while the table is written, flushed and compacted: they must answer as at their moment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import rowlock
from rowlock import Cell

from tests.soak.model import STABLE_FAMILIES, Read, Row, differences, rows_of

Bounds = tuple[bytes, bytes]
_BATCH_BYTES = 4096  # small, so that the server is still reading when the client waits


class HeldRead(Protocol):
    """A read of a moment, to be judged later."""

    name: str
    until: float  # on the monotonic clock

    def advance(self, cell_count: int) -> None:
        """Reads a little further."""

    def finish(self) -> list[str]:
        """Reads to the end, and returns the differences from the moment."""


class OpenedRead(Protocol):
    """Opens a read that is held until `until`. `read` is called as soon as it has its moment."""

    def __call__(
        self,
        client: rowlock.Client,
        table: rowlock.Table[bytes],
        bounds: Bounds,
        reverse: bool,
        until: float,
        moment: Mapping[bytes, Row],
        read: Callable[[], Read],
    ) -> HeldRead | None:
        """Returns None if it got no moment."""


class HeldScan:
    """A scan that has begun and is read in small steps."""

    name = "held scan"

    def __init__(
        self,
        client: rowlock.Client,
        table: rowlock.Table[bytes],
        bounds: Bounds,
        reverse: bool,
        until: float,
        moment: Mapping[bytes, Row],
        read: Callable[[], Read],
        snapshot: rowlock.Snapshot | None = None,
    ) -> None:
        """`read` is called as soon as the scan has its moment. Without a snapshot the rows are of one region."""
        self.until = until
        self._bounds = bounds
        self._reverse = reverse
        self._moment = moment
        self._scan = table.scan(
            *bounds,
            columns=STABLE_FAMILIES,
            versions=3,
            reverse=reverse,
            strict=True,
            batch_bytes=_BATCH_BYTES,
            snapshot=snapshot,
        )
        self._cells: Iterator[Cell[bytes]] = self._scan.cells()
        self._found = list(itertools.islice(self._cells, 1))
        self._read = read()

    def advance(self, cell_count: int) -> None:
        self._found += itertools.islice(self._cells, cell_count)

    def read_all(self) -> list[Cell[bytes]]:
        """Reads to the end, and returns all cells."""
        self._found += self._cells
        self._scan.close()
        return self._found

    def finish(self) -> list[str]:
        found = list(rows_of(self.read_all()))
        return differences(
            self._moment, found, self._read, bounds=self._bounds, reverse=self._reverse, families=STABLE_FAMILIES
        )


def scan_of_one_region(
    client: rowlock.Client,
    table: rowlock.Table[bytes],
    bounds: Bounds,
    reverse: bool,
    until: float,
    moment: Mapping[bytes, Row],
    read: Callable[[], Read],
) -> HeldScan | None:
    """Opens a scan of those rows that are in the region of the first one, or of the last; it has one moment.

    A scan of several regions reads each at a moment of its own. Returns None if the region was split or merged while
    the scan was opened.
    """
    regions = client.regions(table.name, start=bounds[0], stop=bounds[1])
    region = regions[-1 if reverse else 0]
    part = (max(bounds[0], region.start), min(bounds[1], region.stop or bounds[1]))
    held = HeldScan(client, table, part, reverse, until, moment, read)
    if region.region_id not in [each.region_id for each in client.regions(table.name)]:
        held.read_all()
        return None
    return held


class HeldScanOfSnapshot:
    """A scan of a snapshot that is read in small steps, over all regions of its rows."""

    name = "held snapshot scan"

    def __init__(
        self,
        client: rowlock.Client,
        table: rowlock.Table[bytes],
        bounds: Bounds,
        reverse: bool,
        until: float,
        moment: Mapping[bytes, Row],
        read: Callable[[], Read],
    ) -> None:
        self.until = until
        self._snapshot = client.snapshot(table.name)
        self._scan = HeldScan(client, table, bounds, reverse, until, moment, read, self._snapshot)

    def advance(self, cell_count: int) -> None:
        self._scan.advance(cell_count)

    def finish(self) -> list[str]:
        with self._snapshot:
            return self._scan.finish()


class HeldSnapshot:
    """A snapshot that is read when it has been held for a while, forwards and backwards."""

    name = "snapshot"

    def __init__(
        self,
        client: rowlock.Client,
        table: rowlock.Table[bytes],
        bounds: Bounds,
        reverse: bool,
        until: float,
        moment: Mapping[bytes, Row],
        read: Callable[[], Read],
    ) -> None:
        self.until = until
        self._table = table
        self._bounds = bounds
        self._moment = moment
        self.snapshot = client.snapshot(table.name)
        self._read = read()

    def advance(self, cell_count: int) -> None:
        pass

    def finish(self) -> list[str]:
        with self.snapshot:
            return [*self._differences(reverse=False), *self._differences(reverse=True)]

    def cells(self, *, reverse: bool) -> Sequence[Cell[bytes]]:
        return self.cells_of(self._bounds, reverse=reverse)

    def cells_of(self, bounds: Bounds, *, reverse: bool) -> Sequence[Cell[bytes]]:
        scan = self._table.scan(
            *bounds, columns=STABLE_FAMILIES, versions=3, reverse=reverse, strict=True, snapshot=self.snapshot
        )
        with scan:
            return list(scan.cells())

    def _differences(self, *, reverse: bool) -> list[str]:
        found = list(rows_of(self.cells(reverse=reverse)))
        return differences(
            self._moment, found, self._read, bounds=self._bounds, reverse=reverse, families=STABLE_FAMILIES
        )
