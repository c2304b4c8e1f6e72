"""A slow but simple model of visibility, and random rows with many collisions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
from rowlock_regionserver.arrow.columns import cells_table
from rowlock_regionserver.cells import DELETE_COLUMN, DELETE_FAMILY, DELETE_VERSION, PUT, Cell, Family, ReadPoint

WRITE_NUMBER_MAX = 8
TIMESTAMP_MAX = 5


def literal_visible_cells(cells: Sequence[Cell], read_point: ReadPoint, family: Family) -> list[Cell]:
    """Applies the rules of visibility.py literally: replays every column from its first write."""
    family = family.as_of(read_point.write_number)
    visible: list[Cell] = []
    for qualifier in sorted({cell[0] for cell in cells}):
        live: dict[int, Cell] = {}  # by timestamp
        alters = {limits.write_number: limits for limits in family.past}
        for write_number in sorted({*(-cell[2] for cell in cells if -cell[2] <= read_point.write_number), *alters}):
            versions = family.as_of(write_number).versions
            if write_number in alters:
                live = dict(sorted(live.items(), reverse=True)[:versions])
                live = {at: cell for at, cell in live.items() if at > alters[write_number].gone_through}
                continue
            write = [cell for cell in cells if -cell[2] == write_number]
            for cell_qualifier, negated_timestamp, _, kind, _ in write:
                if kind == DELETE_FAMILY or (kind == DELETE_COLUMN and cell_qualifier == qualifier):
                    live = {timestamp: cell for timestamp, cell in live.items() if timestamp > -negated_timestamp}
                elif kind == DELETE_VERSION and cell_qualifier == qualifier:
                    live.pop(-negated_timestamp, None)
            live |= {-cell[1]: cell for cell in write if cell[3] == PUT and cell[0] == qualifier}
            live = dict(sorted(live.items(), reverse=True)[:versions])
        for place, timestamp in enumerate(sorted(live, reverse=True)):
            is_expired = family.time_to_live_ms and timestamp + family.time_to_live_ms <= read_point.now_ms
            if not is_expired or place < family.min_versions:
                visible.append(live[timestamp])
    return visible


def random_row(generator: random.Random, cells_max: int = 14) -> list[Cell]:
    """Returns up to `cells_max` cells in store order: 1 to 3 columns, 5 timestamps, 8 write numbers, all tombstones.

    In one of two all tombstones are among the first writes, so that many puts come after them.
    """
    qualifiers = [b"", b"a", b"b"][: generator.randint(1, 3)]
    kinds = generator.choice(
        [
            [PUT],
            [PUT, PUT, DELETE_VERSION],
            [PUT, PUT, DELETE_COLUMN],
            [PUT, PUT, PUT, DELETE_FAMILY],
            [PUT, PUT, PUT, DELETE_VERSION, DELETE_COLUMN, DELETE_FAMILY],
        ]
    )
    last_tombstone = generator.choice([2, WRITE_NUMBER_MAX])
    cells: dict[tuple[bytes, int, int, int], bytes] = {}
    for _ in range(generator.randint(1, cells_max)):
        kind = generator.choice(kinds)
        qualifier = b"" if kind == DELETE_FAMILY else generator.choice(qualifiers)
        timestamp = generator.randint(0, TIMESTAMP_MAX)
        write_number = generator.randint(1, WRITE_NUMBER_MAX if kind == PUT else last_tombstone)
        key = (qualifier, -timestamp, -write_number, kind)
        cells[key] = bytes([generator.randrange(256)]) if kind == PUT else b""
    return sorted((*key, value) for key, value in cells.items())


def random_family(generator: random.Random) -> Family:
    """Returns a family with 1 to 3 versions, `min_versions` of 0 to 2, and often a time to live."""
    return Family(
        1,
        b"f",
        versions=generator.randint(1, 3),
        min_versions=generator.randint(0, 2),
        time_to_live_ms=generator.choice([0, 2, 3]),
    )


def table_of(rows: Sequence[Sequence[Cell]]) -> pa.Table:
    """Returns a sorted table of rows, which are named by their places."""
    return cells_table([b"%06d" % place for place in range(len(rows))], rows)


def cells_by_row(table: pa.Table, row_count: int) -> list[list[Cell]]:
    """Returns the cells of such a table as tuples, by the row's place."""
    rows: list[list[Cell]] = [[] for _ in range(row_count)]
    columns = [table.column(index).to_pylist() for index in range(6)]
    for row, qualifier, timestamp, write_number, kind, value in zip(*columns, strict=True):
        rows[int(row)].append((qualifier, -timestamp, -write_number, kind, value))
    return rows
