"""Tables written as a line of text, read by a scan and by gets, answered as a line of text.

Answers are written `row{qualifier=value ...}`, with `a:` in front of the qualifiers of family a; those of family f have
nothing in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowlock_regionserver.cells import NEWEST, PUT, Family, ReadPoint
from rowlock_regionserver.found_cells import loaded
from rowlock_regionserver.operations import (
    CellFilter,
    ColumnComparison,
    ColumnSelector,
    CompareOp,
    RowFilter,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.scan.point import read_row
from rowlock_regionserver.scan.scanner import scan

from tests.property.list_source import ListSource, Write
from tests.unit.scan.whole_scans import all_rows_at

READ_POINT = ReadPoint(NEWEST, 0)


@dataclass(frozen=True, slots=True)
class Table:
    """Returns a view of families, each with the writes of one source."""

    families: tuple[Family, ...]
    writes: tuple[Write, ...]

    def stores(self) -> list[tuple[Family, list[ListSource]]]:
        return [
            (family, [ListSource([write for write in self.writes if write.family == family.name])])
            for family in self.families
        ]

    def scanned(self, plan: ScanPlan) -> str:
        stores = self.stores()
        cells = []
        for answer in scan(lambda: stores, plan, all_rows_at(READ_POINT), window_bytes=3):
            for cell in answer.table.to_pylist():
                cells.append((cell["row"], (cell["family"], cell["qualifier"], cell["timestamp"], cell["value"])))
        return written(cells)

    def answer_count(self, plan: ScanPlan) -> int:
        """Returns how many cells a scan answers, without converting them to Python."""
        stores = self.stores()
        return sum(answer.table.num_rows for answer in scan(lambda: stores, plan, all_rows_at(READ_POINT)))

    def got(self, rows: Sequence[bytes], selection: Selection) -> str:
        stores = {family.number: (family, sources) for family, sources in self.stores()}
        found = [(row, cell) for row in rows for cell in read_row(stores, row, selection, READ_POINT)]
        return written([(row, (*cell[:3], loaded(cell[3]))) for row, cell in found])


def written(cells: Sequence[tuple[bytes, tuple[bytes, bytes, int, bytes]]]) -> str:
    rows: dict[bytes, list[str]] = {}
    for row, (family, qualifier, _, value) in cells:
        prefix = "" if family == b"f" else f"{family.decode()}:"
        rows.setdefault(row, []).append(f"{prefix}{qualifier.decode()}={value.decode()}")
    return " ".join(f"{row.decode('latin-1')}{{{' '.join(shown)}}}" for row, shown in rows.items())


def put(row: str, column: str, value: str, timestamp: int = 100) -> Write:
    family, _, qualifier = column.rpartition(":")
    return Write(row.encode(), family.encode() or b"f", qualifier.encode(), timestamp, timestamp, PUT, value.encode())


def column(name: str, op: CompareOp, value: str) -> ColumnComparison:
    return ColumnComparison(b"f", name.encode(), op, value.encode())


def asked(*names: str) -> tuple[ColumnSelector, ...]:
    return tuple(ColumnSelector(b"f", name.encode()) for name in names)


def where(row_filter: RowFilter, *names: str) -> Selection:
    return Selection(columns=asked(*names), where=row_filter)


def cells(cell_filter: CellFilter) -> Selection:
    return Selection(cells=cell_filter)


FAMILY = Family(1, b"f")

# ---- wide rows: w1 with c1..c5, w2 with a:y a:z and c1..c5

WIDE = Table(
    (FAMILY, Family(2, b"a")),
    (
        *(put(row, f"c{number}", str(number)) for row in ("w1", "w2") for number in range(1, 6)),
        put("w2", "a:y", "y"),
        put("w2", "a:z", "z"),
    ),
)
