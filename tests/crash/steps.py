"""The steps of a small store's life, and their effects, as pure functions.

A store is modelled as its tables, and a table as its families and the newest values of its rows. Rows without cells are
absent. No step touches a server here; `driver.py` does the same steps on a real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rowlock_regionserver.cells import Durability
from rowlock_regionserver.operations import Change, Delete, DeleteKind, Increment, Put

Rows = dict[bytes, dict[bytes, bytes]]  # by row, then by b"family:qualifier"
Cells = tuple[tuple[bytes, bytes, bytes, bytes], ...]  # row, family, qualifier, value


@dataclass(slots=True)
class TableState:
    """A table's families, and its rows."""

    families: set[bytes]
    rows: Rows = field(default_factory=dict)


Store = dict[str, TableState]


def column(family: bytes, qualifier: bytes) -> bytes:
    return family + b":" + qualifier


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Changes of one row, atomic over its families; with `expected`, only if that column has that value."""

    table: str
    row: bytes
    changes: tuple[Change, ...]
    durability: Durability
    expected: tuple[bytes, bytes, bytes] | None = None  # family, qualifier, value

    def is_met(self, rows: Rows) -> bool:
        """Returns whether the condition holds."""
        if self.expected is None:
            return True
        family, qualifier, value = self.expected
        return rows.get(self.row, {}).get(column(family, qualifier)) == value

    def apply(self, rows: Rows) -> None:
        if not self.is_met(rows):
            return
        cells = dict(rows.get(self.row, {}))
        for change in self.changes:
            match change:
                case Put(family, qualifier, value):
                    cells[column(family, qualifier)] = value
                case Increment(family, qualifier, amount):
                    name = column(family, qualifier)
                    old = int.from_bytes(cells.get(name, b""), "big", signed=True)
                    cells[name] = (old + amount).to_bytes(8, "big", signed=True)
                case Delete(DeleteKind.ROW):
                    cells.clear()
                case _:
                    raise AssertionError(f"the model has no {change}")
        rows.pop(self.row, None)
        if cells:
            rows[self.row] = cells


@dataclass(frozen=True, slots=True)
class BulkWrite:
    """Cells of many rows, applied whole at one write number."""

    table: str
    cells: Cells
    durability: Durability
    as_rows: bool = False  # sent as rows
    as_puts: bool = False  # sent as puts in columns: each row has a request id of its own

    def apply(self, rows: Rows) -> None:
        for row, family, qualifier, value in self.cells:
            rows.setdefault(row, {})[column(family, qualifier)] = value


@dataclass(frozen=True, slots=True)
class BulkCommit:
    """Stages batches of rows of several regions in a session, and commits all of them at once.

    Batches that the session has staged already, by StageBulk or before a crash, are not staged again.
    """

    session: str
    table: str
    batches: tuple[Cells, ...]
    replaces: bool = False  # hides all that the table had
    is_large: bool = False  # its batches are spilled to store files, which the regions adopt
    durability: Durability = Durability.FSYNC

    def apply(self, rows: Rows) -> None:
        if self.replaces:
            rows.clear()
        for row, family, qualifier, value in [cell for batch in self.batches for cell in batch]:
            rows.setdefault(row, {})[column(family, qualifier)] = value


@dataclass(frozen=True, slots=True)
class StageBulk:
    """Stages the batches of a commit, which nobody sees before it."""

    commit: BulkCommit


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: str
    families: tuple[bytes, ...]
    splits: tuple[bytes, ...] = ()  # where its second region and further ones begin

    def apply(self, store: Store) -> None:
        store[self.table] = TableState(set(self.families))


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Adds a family, or drops one with its cells."""

    table: str
    added: bytes | None = None
    dropped: bytes | None = None

    def apply(self, store: Store) -> None:
        table = store[self.table]
        if self.added is not None:
            table.families.add(self.added)
        if self.dropped is not None:
            table.families.discard(self.dropped)
            gone = column(self.dropped, b"")
            kept = {
                row: {name: value for name, value in cells.items() if not name.startswith(gone)}
                for row, cells in table.rows.items()
            }
            table.rows = {row: cells for row, cells in kept.items() if cells}


@dataclass(frozen=True, slots=True)
class TruncateTable:
    table: str

    def apply(self, store: Store) -> None:
        store[self.table].rows = {}


@dataclass(frozen=True, slots=True)
class DropTable:
    table: str

    def apply(self, store: Store) -> None:
        del store[self.table]


def snapshot_key(name: str) -> str:
    """Returns the place of a named snapshot in a store: it is a table that never changes."""
    return f"@{name}"


@dataclass(frozen=True, slots=True)
class CreateSnapshot:
    """Takes a named snapshot of a table."""

    name: str
    table: str

    def apply(self, store: Store) -> None:
        store[snapshot_key(self.name)] = copied(store[self.table])


@dataclass(frozen=True, slots=True)
class RestoreSnapshot:
    """Makes a new table of a named snapshot."""

    name: str
    table: str

    def apply(self, store: Store) -> None:
        store[self.table] = copied(store[snapshot_key(self.name)])


@dataclass(frozen=True, slots=True)
class DropSnapshot:
    name: str

    def apply(self, store: Store) -> None:
        del store[snapshot_key(self.name)]


def copied(table: TableState) -> TableState:
    """Returns a copy that changes of the table don't reach."""
    return TableState(set(table.families), {row: dict(cells) for row, cells in table.rows.items()})


@dataclass(frozen=True, slots=True)
class Flush:
    """Flushes the table's memstore to store files."""

    table: str


@dataclass(frozen=True, slots=True)
class Compact:
    """Compacts all store files of each of the table's families: to one delta, or to a base."""

    table: str
    is_major: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Splits the region that holds the row, there; nothing if it begins there."""

    table: str
    row: bytes


@dataclass(frozen=True, slots=True)
class Merge:
    """Merges the region that holds the row with the one before it; nothing if it is the first."""

    table: str
    row: bytes


@dataclass(frozen=True, slots=True)
class Restart:
    """Stops the server in an orderly way, which flushes, and opens it again."""


DataStep = RowWrite | BulkWrite | BulkCommit
CatalogStep = CreateTable | AlterTable | TruncateTable | DropTable | CreateSnapshot | RestoreSnapshot | DropSnapshot
Step = DataStep | CatalogStep | StageBulk | Flush | Compact | Split | Merge | Restart
