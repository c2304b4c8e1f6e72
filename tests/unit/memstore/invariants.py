"""What holds of every segment, as its readers see it."""

from __future__ import annotations

from rowlock_regionserver.arrow.cell_columns import CellColumns
from rowlock_regionserver.cells import NEWEST
from rowlock_regionserver.memstore.memstore import BulkSegment, Memstore, Segment
from rowlock_regionserver.memstore.row_segment import CELL_BYTES, ROW_BYTES, RowSegment


def rows_of(segment: Segment) -> list[bytes]:
    """Its rows as a scan of all finds them, each once."""
    columns = CellColumns(segment.read_rows(b"", b"", NEWEST).table)
    rows = [columns.row(place) for place in range(len(columns))]
    return list(dict.fromkeys(rows))


def check_rows(segment: RowSegment) -> None:
    """Rows and cells are in order, and numbers, counts and bytes are those of the cells. O(cells)."""
    rows = rows_of(segment)
    assert rows == sorted(rows), "rows are out of order"
    cells_of = {row: segment.row_cells(row) for row in rows}
    for row, cells in cells_of.items():
        assert cells, f"row {row!r} is empty"
        assert cells == sorted(cells), f"the cells of row {row!r} are out of order"
    cells = [cell for cells in cells_of.values() for cell in cells]
    assert all(segment.write_number_min <= -cell[2] <= segment.write_number_max for cell in cells)
    assert (segment.row_count, segment.cell_count) == (len(rows), len(cells))
    data_bytes = sum(map(len, rows)) + sum(len(cell[0]) + len(cell[4]) for cell in cells)
    assert segment.bytes_held == ROW_BYTES * len(rows) + CELL_BYTES * len(cells) + data_bytes


def check_batch(segment: BulkSegment) -> None:
    """Rows and cells are in order, and counted. O(cells)."""
    rows = rows_of(segment)
    assert rows == sorted(rows), "rows are out of order"
    cells_of = [segment.row_cells(row) for row in rows]
    assert all(cells == sorted(cells) for cells in cells_of), "the cells of a row are out of order"
    assert (segment.row_count, segment.cell_count) == (len(rows), sum(map(len, cells_of)))


def check_memstore(memstore: Memstore) -> None:
    """Only the first segment takes writes, and each one holds its invariants. O(cells)."""
    sources = memstore.sources()
    assert sources[0] is memstore.active
    assert [isinstance(source, RowSegment) and not source.is_sealed for source in sources] == [
        True,
        *[False] * (len(sources) - 1),
    ]
    for source in sources:
        if isinstance(source, RowSegment):
            check_rows(source)
        else:
            check_batch(source)
