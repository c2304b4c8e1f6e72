"""A region's stores: each family's memstore and store files, and the frozen view that a read uses.

The view is one mapping, replaced by one assignment whenever a source comes or goes: a segment is added or sealed, a
flushed segment becomes a file. So a reader sees a segment or the file it became, never neither and never both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import Cell, Family
from rowlock_regionserver.memstore.memstore import Memstore
from rowlock_regionserver.region.table import Table
from rowlock_regionserver.sources import Source
from rowlock_regionserver.storefile.reader import StoreFile

# By family number: the family and its sources, from newest to oldest. Never changed, only replaced.
View = Mapping[int, tuple[Family, tuple[Source, ...]]]


@dataclass(slots=True)
class Store:
    """One family's data in one region."""

    family: Family
    memstore: Memstore
    files: tuple[StoreFile, ...] = ()


class Stores:
    """The stores of one region; recovery fills their memstores before anybody reads them.

    The view is read by anybody; changes are made with the gate held exclusively, or by the
    one flush that runs, and exclude each other by the lock here."""

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


class RowState:
    """One row as stored, unpublished writes included; each family is read at most once, when it is first asked for."""

    __slots__ = ("_by_family", "_row", "_view")

    def __init__(self, view: View, row: bytes) -> None:
        self._view = view
        self._row = row
        self._by_family: dict[int, Sequence[Cell]] = {}

    @property
    def newest_write_number(self) -> int:
        """Of all cells read so far; 0 when there were none."""
        return -min((cell[2] for cells in self._by_family.values() for cell in cells), default=0)

    def family_cells(self, family: Family) -> Sequence[Cell]:
        """All cells of the row in the family, tombstones and old versions too, in store order."""
        cells = self._by_family.get(family.number)
        if cells is None:
            cells = self._by_family[family.number] = gather(self._view[family.number][1], self._row)
        return cells


def gather(sources: Sequence[Source], row: bytes) -> Sequence[Cell]:
    """The row's cells of all sources, in store order."""
    found = [cells for source in sources if (cells := source.row_cells(row))]
    if not found:
        return ()
    if len(found) == 1:
        return found[0]
    return sorted(cell for cells in found for cell in cells)
