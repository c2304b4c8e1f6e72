"""A region's stores: each family's memstore and store files, and the frozen view that a read uses.

The view is one mapping, replaced by one assignment whenever a source comes or goes: a segment is added or sealed, a
flushed segment becomes a file. So a reader sees a segment or the file it became, never neither and never both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rowlock_regionserver.cells import Family
from rowlock_regionserver.memstore.memstore import Memstore, Segment
from rowlock_regionserver.region.table import Table
from rowlock_regionserver.scan.columns import TIMESTAMP, column, integers
from rowlock_regionserver.storefile.reader import StoreFile

# By family number: the family and its sources, from newest to oldest. Never changed, only replaced.
View = Mapping[int, tuple[Family, tuple[Segment | StoreFile, ...]]]


@dataclass(slots=True)
class Store:
    """One family's data in one region."""

    family: Family
    memstore: Memstore
    files: tuple[StoreFile, ...] = ()


class Stores:
    """The stores of one region; recovery fills their memstores before anybody reads them.

    The view is read by anybody. Changes are made with the gate held exclusively, or by the one flush that runs, and
    exclude each other by the lock here.
    """

    def __init__(self, table: Table, files: dict[int, tuple[StoreFile, ...]]) -> None:
        self._lock = threading.Lock()
        # Guarded by self._lock; read without it through `view` and `of`, which are replaced whole.
        self._stores: dict[int, Store] = {}
        self.view: View = {}
        self.has_files = False
        self._replace(
            Store(family, Memstore(family.versions, recovering=True), files.get(family.number, ()))
            for family in table.families
        )

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
                for table in segment.tables():
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
            self._replace(stores)
        return dropped

    def _replace(self, stores: Iterable[Store]) -> None:
        self._stores = {store.family.number: store for store in stores}
        self._show()

    def _show(self) -> None:
        self.has_files = any(store.files for store in self._stores.values())
        self.view = {
            number: (store.family, (*store.memstore.sources(), *store.files)) for number, store in self._stores.items()
        }


def is_row_in_memory(view: View, row: bytes, families: Collection[bytes] | None) -> bool:
    """Reading the row in these families, by name (None: in all), will not wait for a disk."""
    return all(
        source.is_row_in_memory(row)
        for family, sources in view.values()
        if families is None or family.name in families
        for source in sources
    )
