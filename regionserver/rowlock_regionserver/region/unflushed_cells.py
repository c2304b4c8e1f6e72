"""The cells that a region takes over from the memstores of others, after a split or a merge.

The log has them as records of the other regions. So the new region's first manifest has the cells themselves: for each
family a table of CELL_SCHEMA with all versions and tombstones, in store order, as an Arrow IPC stream. The new region
has them in its memstores, and its manifests have them until its first flush.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rowlock_regionserver.arrow.columns import single_chunk
from rowlock_regionserver.arrow.merge import first_at_or_after, merged
from rowlock_regionserver.arrow.sorted_run import SortedRun
from rowlock_regionserver.cells import CELL_SCHEMA
from rowlock_regionserver.memstore.arrow_segment import ArrowSegment
from rowlock_regionserver.region.stores import Stores, tables_of

# By family number; no table is empty, and each has one chunk.
CellsOfFamilies = Mapping[int, pa.Table]


def cells_in_memory(stores: Stores) -> CellsOfFamilies:
    """Returns all cells of the memstores. Call with the gate held exclusively, when every write is published."""
    found: dict[int, pa.Table] = {}
    for store in stores.all():
        runs = [SortedRun.of_table(table) for source in store.memstore.sources() for table in tables_of(source)]
        if runs:
            found[store.family.number] = single_chunk(merged(runs).table())
    return found


def taken_over(olds: Sequence[CellsOfFamilies], start: bytes, stop: bytes) -> CellsOfFamilies:
    """Returns the cells of the rows [start, stop); an empty stop means no bound. `olds`: of regions in row order.

    They are copies: a part would keep the memory of all cells.
    """
    found: dict[int, list[pa.Table]] = {}
    for old in olds:
        for number, table in old.items():
            first = first_at_or_after(table, start)
            end = first_at_or_after(table, stop) if stop else table.num_rows
            if first < end:
                found.setdefault(number, []).append(table.slice(first, end - first))
    return {number: _copy(pa.concat_tables(tables)) for number, tables in found.items()}


def add_unflushed(cells: CellsOfFamilies, stores: Stores) -> int:
    """Adds the cells of a manifest to the memstores of a region that is being opened, for each family that it has.

    Returns the growth of memory in bytes.
    """
    grown = 0

    def add() -> None:
        nonlocal grown
        for store in stores.all():
            table = cells.get(store.family.number)
            if table is not None:
                grown += store.memstore.add_segment(ArrowSegment(table))

    if cells:
        stores.change(add)
    return grown


def _copy(table: pa.Table) -> pa.Table:
    """Returns the table in memory of its own, with one chunk a column."""
    columns = [pa.concat_arrays(column.chunks) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=CELL_SCHEMA)


def stream_of(table: pa.Table) -> bytes:
    """Returns the cells as a stream; see table_of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, CELL_SCHEMA) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def table_of(stream: bytes) -> pa.Table:
    """Returns the cells of a stream. Raises ValueError if the bytes are not such a stream, or if it has no cells."""
    try:
        table = pa.ipc.open_stream(stream).read_all()
    except OSError as error:  # It ends inside a message.
        raise ValueError(str(error)) from error
    if not table.schema.equals(CELL_SCHEMA) or not table.num_rows:
        raise ValueError(f"{table.num_rows} cells of the schema {table.schema}")
    return single_chunk(table)
