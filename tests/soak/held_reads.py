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
    ) -> None:
        """`read` is called as soon as the scan has its moment."""
        self.until = until
        self._bounds = bounds
        self._reverse = reverse
        self._moment = moment
        self._scan = table.scan(
            *bounds, columns=STABLE_FAMILIES, versions=3, reverse=reverse, strict=True, batch_bytes=_BATCH_BYTES
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
        self._snapshot = client.snapshot(table.name)
        self._read = read()

    def advance(self, cell_count: int) -> None:
        pass

    def finish(self) -> list[str]:
        with self._snapshot:
            return [*self._differences(reverse=False), *self._differences(reverse=True)]

    def cells(self, *, reverse: bool) -> Sequence[Cell[bytes]]:
        return self.cells_of(self._bounds, reverse=reverse)

    def cells_of(self, bounds: Bounds, *, reverse: bool) -> Sequence[Cell[bytes]]:
        scan = self._table.scan(
            *bounds, columns=STABLE_FAMILIES, versions=3, reverse=reverse, strict=True, snapshot=self._snapshot
        )
        with scan:
            return list(scan.cells())

    def _differences(self, *, reverse: bool) -> list[str]:
        found = list(rows_of(self.cells(reverse=reverse)))
        return differences(
            self._moment, found, self._read, bounds=self._bounds, reverse=reverse, families=STABLE_FAMILIES
        )
