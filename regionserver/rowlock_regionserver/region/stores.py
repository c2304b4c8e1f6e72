"""A region's stores: each family's memstore and store files, and the frozen view that a read uses.

The view is one mapping, replaced by one assignment when a source is added or removed: a segment is added or sealed, or
a file replaces a flushed segment. So a reader sees either the segment or its file, never neither or both. The view is
replaced together with the table, so a read that was checked against a table reads that table's families.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import TIMESTAMP, column, integers
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.memstore.memstore import BulkSegment, Memstore, Segment
from rowlock_regionserver.memstore.segment_group import SegmentGroup, grouped
from rowlock_regionserver.sources import DISK, NOWHERE, RowSource, Source
from rowlock_regionserver.storefile.reader import Run, StoreFile
from rowlock_regionserver.table import Table
from rowlock_regionserver.versions.past_limits import altered

# How many cells, in all families, may be read on the event loop: one or two milliseconds.
INLINE_CELLS_MAX = 1000

_READ_BYTES = 1 << 20

# By family number: the family and its sources, from newest to oldest. Never changed, only replaced.
View = Mapping[int, tuple[Family, tuple[Segment | Run, ...]]]
# What has one row, in memory, in any order.
RowView = Mapping[int, tuple[Family, Sequence[RowSource]]]


class Lookup:
    """Finds what has a row, of one family's sources at one moment. Immutable."""

    __slots__ = ("_groups", "_runs", "_segments", "family")

    def __init__(self, family: Family, sources: Sequence[Segment | Run], before: Lookup | None) -> None:
        """`before` is the family's last one; groups of segments that are still there are not made again."""
        self.family = family
        segments = [source for source in sources if isinstance(source, BulkSegment)]
        self._groups: list[SegmentGroup] = grouped(segments, [] if before is None else before._groups)
        in_groups = {id(segment) for group in self._groups for segment in group.segments}
        # Those that are in no group.
        self._segments = [source for source in sources if isinstance(source, Segment) and id(source) not in in_groups]
        self._runs = [source for source in sources if not isinstance(source, Segment)]

    def candidates(self, row: bytes) -> Sequence[Segment | Run]:
        """Returns the sources that may have the row, and others. Memory, which is mostly newer, comes first."""
        in_groups = SegmentGroup.candidates(self._groups, row) if self._groups else ()
        return [*self._segments, *in_groups, *self._runs]

    def row_sources(self, row: bytes) -> list[RowSource] | None:
        """Returns what has the row's cells, in memory; None if they have to be read from a disk."""
        found: list[RowSource] = []
        for source in self.candidates(row):
            of_row = source.row_source(row)
            if of_row is DISK:
                return None
            if of_row is not NOWHERE:
                found.append(cast("RowSource", of_row))
        return found


# By family number.
Lookups = Mapping[int, Lookup]


class Served(NamedTuple):
    """The table, and its families' sources at one moment, for a reader."""

    table: Table
    view: View
    lookups: Lookups


@dataclass(slots=True)
class Store:
    """One family's data in one region."""

    family: Family
    memstore: Memstore
    files: tuple[StoreFile, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has no cells. O(segments)."""
        return not self.files and not any(segment.cell_count for segment in self.memstore.sources())

    def remove_files_when_unused(self, *, folder_too: bool = False) -> None:
        """Removes each file from the disk after its last reader is done."""
        for file in self.files:
            file.remove_when_unused(folder_too=folder_too)


class Stores:
    """The stores of one region; recovery fills their memstores before the first read.

    Any thread may read the view. Changes are made with the gate held exclusively, by the one running flush, or by puts
    in columns, which hold the gate shared. They exclude each other by the lock here.
    """

    def __init__(self, table: Table, files: dict[int, tuple[StoreFile, ...]]) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock; `served` and `of` read without it, since each is replaced by one assignment.
        self._stores: dict[int, Store] = {}
        self.served = Served(table, {}, {})
        self.has_files = False
        self._pin_count = 0
        self._is_retired = False
        stores = [
            Store(family, Memstore(family.versions, recovering=True, past=family.past), files.get(family.number, ()))
            for family in table.families
        ]
        self._replace(table, stores)

    @property
    def view(self) -> View:
        """The current sources."""
        return self.served.view

    def of(self, family_number: int) -> Store:
        """Returns the store of a family. Raises KeyError if the family was dropped."""
        return self._stores[family_number]

    def all(self) -> Sequence[Store]:
        """All stores, by family name."""
        return tuple(self._stores.values())

    @property
    def memstore_bytes(self) -> int:
        return sum(store.memstore.bytes_held for store in self._stores.values())

    @property
    def segment_count(self) -> int:
        """The number of immutable segments of the family that has the most."""
        return max((len(store.memstore.sources()) - 1 for store in self._stores.values()), default=0)

    def newest_timestamp(self) -> int:
        """Returns the newest timestamp of all cells, tombstones too; 0 if there are none. Reads all memstores."""
        newest = 0
        for store in self._stores.values():
            for segment in store.memstore.sources():
                for table in tables_of(segment):
                    newest = max(newest, int(np.max(integers(column(table, TIMESTAMP)))))
            newest = max([newest, *(file.info.timestamp_max for file in store.files)])
        return newest

    def change(self, action: Callable[[], None]) -> None:
        """Runs an action that adds, seals or drops sources, then publishes its effect to readers in one step."""
        with self._lock:
            action()
            self._publish()

    def alter(self, table: Table, write_number: int, now_ms: int) -> list[Store]:
        """Switches to the families of the altered table. Returns the stores of dropped families.

        A changed family keeps its cells: its active segment is sealed under the old limits. If its limits change, it
        remembers those before this write number (versions/past_limits.py), unless it has no cells.
        """
        with self._lock:
            dropped = [store for number, store in self._stores.items() if number not in table.name_by_number]
            stores = []
            for family in table.families:
                store = self._stores.get(family.number)
                if store is None:
                    store = Store(family, Memstore(family.versions))
                elif replace(store.family, past=()) != family:
                    store.memstore.switch(versions=family.versions)
                    if not store.is_empty:
                        family = altered(store.family, family, write_number, now_ms)
                    store = Store(family, store.memstore, store.files)
                stores.append(store)
            self._replace(table, stores)
        return dropped

    def _replace(self, table: Table, stores: Iterable[Store]) -> None:
        self._stores = {store.family.number: store for store in stores}
        self._publish(table)

    def _publish(self, table: Table | None = None) -> None:
        table = table or self.served.table
        families = tuple(store.family for store in self._stores.values())
        if table.families != families:
            table = replace(table, families=families)
        self.has_files = any(store.files for store in self._stores.values())
        view = {
            number: (store.family, (*store.memstore.sources(), *(run for file in store.files for run in file.runs)))
            for number, store in self._stores.items()
        }
        before = self.served.lookups
        lookups = {number: Lookup(*store, before.get(number)) for number, store in view.items()}
        self.served = Served(table, view, lookups)

    def remove_files_when_unused(self) -> set[Path]:
        """Removes all store files after their last readers are done, and then their folder. Returns their paths."""
        paths: set[Path] = set()
        for store in self.all():
            paths.update(file.path for file in store.files)
            store.remove_files_when_unused(folder_too=True)
        return paths

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Returns a context in which the view stays readable, even after `retire`."""
        with self._lock:
            self._pin_count += 1
        try:
            yield
        finally:
            with self._lock:
                self._pin_count -= 1
                self._release_if_retired()

    def retire(self) -> None:
        """Releases all sources of a region that is gone, after the last `pinned` context has ended."""
        with self._lock:
            self._is_retired = True
            self._release_if_retired()

    def _release_if_retired(self) -> None:
        if self._is_retired and not self._pin_count:
            self._stores = {}
            self.served = Served(self.served.table, _ClosedView(), _ClosedView())


class _ClosedView(Mapping[int, NoReturn]):
    """The view of a region that is gone. It raises, so that no reader takes it for an empty region."""

    def __getitem__(self, number: int) -> NoReturn:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotServingRegionError(
            "the region is closed: its table was dropped or truncated; look the region up again"
        )


def view_in_memory(lookups: Lookups, row: bytes, families: Collection[bytes] | None) -> RowView | None:
    """Returns what a read of the row in these families, by name (None: in all), needs of the view.

    That is without the sources that can't have the row, and with a block of lines in the place of its run, so that the
    run is not searched again. Returns None if such a read would wait for a disk.
    """
    needed: dict[int, tuple[Family, Sequence[RowSource]]] = {}
    for number, lookup in lookups.items():
        family = lookup.family
        if families is None or family.name in families:
            found = lookup.row_sources(row)
            if found is None:
                return None
            needed[number] = family, found
    return needed


def row_cell_count(view: View, row: bytes) -> int:
    """Estimates how many cells the row has in all families, without reading a file."""
    return sum(source.row_cell_count(row) for _, sources in view.values() for source in sources)


def tables_of(source: Source) -> Iterator[pa.Table]:
    """Yields all cells of a source in store order, as non-empty tables."""
    start: bytes | None = b""
    while start is not None:
        chunk = source.read_rows(start, b"", _READ_BYTES)
        if chunk.table.num_rows:
            yield chunk.table
        start = chunk.frontier
