"""A region's stores: each family's memstore and store files, and the frozen view that a read uses.

The view is one mapping, replaced by one assignment whenever a source comes or goes: a segment is added or sealed, a
flushed segment becomes a file. So a reader sees a segment or the file it became, never neither and never both. It is
replaced together with the table, so a reader that was checked against a table reads that table's families.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.columns import TIMESTAMP, column, integers
from rowlock_regionserver.cells import Family
from rowlock_regionserver.errors import NotServingRegionError
from rowlock_regionserver.memstore.memstore import Memstore, Segment
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.reader import StoreFile
from rowlock_regionserver.table import Table

# As many cells of rows, in all families, may be read on the event loop: one or two milliseconds.
INLINE_CELLS_MAX = 1000

_READ_BYTES = 1 << 20

# By family number: the family and its sources, from newest to oldest. Never changed, only replaced.
View = Mapping[int, tuple[Family, tuple[Segment | StoreFile, ...]]]


class Served(NamedTuple):
    """What a reader reads: a table, and its families' sources at one moment."""

    table: Table
    view: View


@dataclass(slots=True)
class Store:
    """One family's data in one region."""

    family: Family
    memstore: Memstore
    files: tuple[StoreFile, ...] = ()

    def remove_files_when_unused(self, *, folder_too: bool = False) -> None:
        """Each of its files goes from the disk when nobody reads it any more."""
        for file in self.files:
            file.remove_when_unused(folder_too=folder_too)


class Stores:
    """The stores of one region; recovery fills their memstores before anybody reads them.

    The view is read by anybody. Changes are made with the gate held exclusively, or by the one flush that runs, and
    exclude each other by the lock here.
    """

    def __init__(self, table: Table, files: dict[int, tuple[StoreFile, ...]]) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock; read without it through `served` and `of`, which are replaced whole.
        self._stores: dict[int, Store] = {}
        self.served = Served(table, {})
        self.has_files = False
        self._holder_count = 0
        self._is_retired = False
        stores = [
            Store(family, Memstore(family.versions, recovering=True), files.get(family.number, ()))
            for family in table.families
        ]
        self._replace(table, stores)

    @property
    def view(self) -> View:
        """The sources there are now."""
        return self.served.view

    def of(self, family_number: int) -> Store:
        """The store of a family. KeyError when the family was dropped."""
        return self._stores[family_number]

    def all(self) -> Sequence[Store]:
        """All stores, by family name."""
        return tuple(self._stores.values())

    @property
    def memstore_bytes(self) -> int:
        return sum(store.memstore.bytes_held for store in self._stores.values())

    @property
    def segment_count(self) -> int:
        """Immutable segments of the family that has most."""
        return max((len(store.memstore.sources()) - 1 for store in self._stores.values()), default=0)

    def newest_timestamp(self) -> int:
        """The newest timestamp of all cells, tombstones too; 0 without any. Reads all that is in memory."""
        newest = 0
        for store in self._stores.values():
            for segment in store.memstore.sources():
                for table in _tables_of(segment):
                    newest = max(newest, int(np.max(integers(column(table, TIMESTAMP)))))
            newest = max([newest, *(file.info.timestamp_max for file in store.files)])
        return newest

    def change(self, action: Callable[[], None]) -> None:
        """Runs an action that adds, seals or drops sources, then shows its effect to readers in one step."""
        with self._lock:
            action()
            self._show()

    def alter(self, table: Table) -> list[Store]:
        """Takes over the families of the altered table; gives the stores of dropped families.

        A changed family keeps its cells: its active segment is sealed under the old limits.
        """
        with self._lock:
            dropped = [store for number, store in self._stores.items() if number not in table.name_by_number]
            stores = []
            for family in table.families:
                store = self._stores.get(family.number)
                if store is None:
                    store = Store(family, Memstore(family.versions))
                elif store.family != family:
                    store.memstore.switch(versions=family.versions)
                    store = Store(family, store.memstore, store.files)
                stores.append(store)
            self._replace(table, stores)
        return dropped

    def _replace(self, table: Table, stores: Iterable[Store]) -> None:
        self._stores = {store.family.number: store for store in stores}
        self._show(table)

    def _show(self, table: Table | None = None) -> None:
        self.has_files = any(store.files for store in self._stores.values())
        view = {
            number: (store.family, (*store.memstore.sources(), *store.files)) for number, store in self._stores.items()
        }
        self.served = Served(table or self.served.table, view)

    def remove_files_when_unused(self) -> set[Path]:
        """All store files go from the disk when nobody reads them any more, and their folder with them. Gives them."""
        paths: set[Path] = set()
        for store in self.all():
            paths.update(file.path for file in store.files)
            store.remove_files_when_unused(folder_too=True)
        return paths

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """What is served now goes on being there for who asks for the view again and again, also after `retire`."""
        with self._lock:
            self._holder_count += 1
        try:
            yield
        finally:
            with self._lock:
                self._holder_count -= 1
                self._let_go_if_retired()

    def retire(self) -> None:
        """The region is gone: lets go of all sources, when nobody holds them any more."""
        with self._lock:
            self._is_retired = True
            self._let_go_if_retired()

    def _let_go_if_retired(self) -> None:
        if self._is_retired and not self._holder_count:
            self._stores = {}
            self.served = Served(self.served.table, _Gone())


class _Gone(Mapping[int, tuple[Family, tuple[Segment | StoreFile, ...]]]):
    """The view of a region that is gone. Nobody takes it for one that is empty."""

    def __getitem__(self, number: int) -> NoReturn:
        self._refuse()

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotServingRegionError("the region was closed here, and its table dropped or truncated; look it up again")


def is_row_in_memory(view: View, row: bytes, families: Collection[bytes] | None) -> bool:
    """Reading the row in these families, by name (None: in all), will not wait for a disk."""
    return all(
        source.is_row_in_memory(row)
        for family, sources in view.values()
        if families is None or family.name in families
        for source in sources
    )


def row_cell_count(view: View, row: bytes) -> int:
    """About how many cells the row has in all families, as far as that is known without reading."""
    return sum(source.row_cell_count(row) for _, sources in view.values() for source in sources)


def _tables_of(source: Source) -> Iterator[pa.Table]:
    """All cells of a source in store order; none of the tables is empty."""
    start: bytes | None = b""
    while start is not None:
        chunk = source.read_rows(start, b"", _READ_BYTES)
        if chunk.table.num_rows:
            yield chunk.table
        start = chunk.frontier
