"""Arranges a bulk batch of cells: checks, splits by family, sorts and collapses it, by vector operations.

A bulk batch is one write with one write number. So of two cells with the same column and timestamp the later one in the
batch wins, and a put that a later delete of the batch covers is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rowlock_proto.shown_names import row_text

from rowlock_regionserver.arrow.columns import (
    Column,
    Integers,
    Mask,
    binary_array,
    boolean_array,
    column,
    distinct_of_sorted,
    equals_previous,
    integer_array,
    integers,
    kinds,
    single_chunk,
    take,
)
from rowlock_regionserver.arrow.masks import buffer_of, numpy_mask
from rowlock_regionserver.arrow.merge import row_at
from rowlock_regionserver.cells import CELL_SCHEMA, DELETE_COLUMN, PUT, TIMESTAMP_MAX, Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError, LimitExceededError
from rowlock_regionserver.region.bulk.arranged import FAMILY_CELLS_SCHEMA, ArrangedBatch, FamilyPart
from rowlock_regionserver.region.check import check_family
from rowlock_regionserver.table import Table

Chunks: TypeAlias = "pa.ChunkedArray[Any]"  # Any: pyarrow's stubs type an array by its scalars

_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("row", "ascending"),
    ("qualifier", "ascending"),
    ("order", "descending"),
    ("kind", "descending"),
]
_STAMPED_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("row", "ascending"),
    ("qualifier", "ascending"),
    ("timestamp", "descending"),
]


def arrange(
    batch: pa.Table,
    table: Table,
    config: Config,
    timestamp_max: int,
    stamp_at_least: int,
    between: Callable[[], None] = lambda: None,
) -> ArrangedBatch:
    """Arranges a batch of (row, family, qualifier, timestamp nullable, value nullable), already validated as Arrow.

    The batch will be stamped `stamp_at_least` or later; `is_in_order_at` says whether a later stamp fits.
    `timestamp_max`: the latest timestamp that a client may set. `between` is called between pieces of work.

    Raises InvalidRequestError, LimitExceededError and FamilyNotFoundError.
    """
    if not batch.num_rows:
        raise InvalidRequestError("the bulk batch has no cells; send at least one")
    batch = single_chunk(batch)
    _check_sizes(batch, config)
    check_timestamps(batch.column("timestamp"), config, timestamp_max)
    tables: dict[int, pa.Table] = {}
    ahead: list[int] = []
    for family, part in _split_by_family(batch, table.by_name, table.name):
        between()
        tables[family.number] = in_order(part, stamp_at_least, ahead, between)
    rows = sorted(row_at(part, i) for part in tables.values() for i in (0, part.num_rows - 1))
    return ArrangedBatch(
        parts={number: FamilyPart(cells=part) for number, part in tables.items()},
        row_count=_count_rows(tables),
        first_row=rows[0],
        last_row=rows[-1],
        is_stamped=batch.column("timestamp").null_count > 0,
        stamp_at_least=stamp_at_least,
        timestamp_ahead=min(ahead, default=None),
    )


def _count_rows(tables: Mapping[int, pa.Table]) -> int:
    """Counts the distinct rows over all families."""
    if len(tables) == 1:
        (part,) = tables.values()
        return int(np.count_nonzero(~equals_previous(column(part, 0))))
    return len(pc.unique(pa.chunked_array([distinct_of_sorted(column(part, 0)) for part in tables.values()])))


def _check_sizes(batch: pa.Table, config: Config) -> None:
    for name, limit, limit_value, length_min in (
        ("row", "row_bytes_max", config.row_bytes_max, 1),
        ("qualifier", "qualifier_bytes_max", config.qualifier_bytes_max, 0),
        ("value", "cell_bytes_max", config.cell_bytes_max, 0),
    ):
        lengths = pc.binary_length(batch.column(name))
        bounds = pc.min_max(lengths)
        shortest, longest = bounds["min"].as_py(), bounds["max"].as_py()
        if shortest is not None and shortest < length_min:
            at = pc.index(lengths, shortest).as_py()
            raise InvalidRequestError(f"cell {at} of the bulk batch has an empty row; a row key has at least one byte")
        if longest is not None and longest > limit_value:
            at = pc.index(lengths, longest).as_py()
            row = batch.column("row")[at].as_py()[:64]
            raise LimitExceededError(
                f"the {name} of cell {at} (row {row_text(row)}) of the bulk batch has {longest} bytes, more than "
                f"{limit} = {limit_value}",
                limit=limit,
                limit_value=limit_value,
                found=longest,
                row=row,
            )


def check_timestamps(timestamps: Chunks | Column, config: Config, timestamp_max: int) -> None:
    """Refuses timestamps that are out of range, or later than `timestamp_max`. Nulls are ignored."""
    bounds = pc.call_function("min_max", [timestamps])
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    if lowest is None:
        return
    if lowest < 0 or highest > TIMESTAMP_MAX:
        wrong = lowest if lowest < 0 else highest
        raise InvalidRequestError(
            f"timestamp {wrong} in the bulk batch is out of range; it is milliseconds since the epoch"
        )
    if highest > timestamp_max:
        raise LimitExceededError(
            f"timestamp {highest} in the bulk batch is more than timestamp_ahead_ms_max = "
            f"{config.timestamp_ahead_ms_max} ms ahead of the server's clock; such a cell would hide every put "
            "until then",
            limit="timestamp_ahead_ms_max",
            limit_value=config.timestamp_ahead_ms_max,
            found=highest,
        )


def _split_by_family(batch: pa.Table, families: Mapping[bytes, Family], table: str) -> list[tuple[Family, pa.Table]]:
    names = [name for name in batch.column("family").unique().to_pylist() if name is not None]
    for name in names:
        check_family(name, families, table)
    cells = batch.drop_columns(["family"])
    if len(names) == 1:
        return [(families[names[0]], cells)]
    return [
        (families[name], single_chunk(cells.filter(pc.equal(batch.column("family"), binary_array([name])[0]))))
        for name in sorted(names)
    ]


def in_order(cells: pa.Table, stamp_at_least: int, ahead: list[int], between: Callable[[], None]) -> pa.Table:
    """Sorts (row, qualifier, timestamp, value) by row, qualifier, newest first; collapses them to FAMILY_CELLS_SCHEMA.

    A missing timestamp sorts as `stamp_at_least`. Appends this family's `timestamp_ahead` to `ahead`, if it has one.
    """
    count = cells.num_rows
    kind = _kinds(cells.column("value"), count)
    # fill_null returns the column itself if it has no nulls, and nulls in the data are rare.
    timestamp = _one_array(cells.column("timestamp").fill_null(_integer(stamp_at_least)))
    together = pa.Table.from_arrays(
        [
            column(cells, 0),
            column(cells, 1),
            _one_array(cells.column("timestamp")),
            integer_array(kind, pa.int8()),
            _one_array(cells.column("value").fill_null(binary_array([b""])[0])),
            timestamp,
        ],
        names=[*FAMILY_CELLS_SCHEMA.names, "order"],
    )
    positions = np.arange(count, dtype=np.int64)
    is_sorted = _is_sorted(together)
    between()
    if not is_sorted:
        indices = pc.sort_indices(together, sort_keys=_ORDER)  # Stable: of equal cells the later one comes last.
        between()
        together = single_chunk(together.take(indices))
        between()
        positions = np.frombuffer(buffer_of(indices, 1), np.uint64)[:count].astype(np.int64)
    if 0 < cells.column("timestamp").null_count < count:
        ahead += _timestamps_ahead(together, stamp_at_least)
    survives = _survivors(together, positions)
    if not survives.all():
        together = single_chunk(take(together, np.flatnonzero(survives)))
    return together.drop_columns(["order"]).cast(FAMILY_CELLS_SCHEMA)


def _timestamps_ahead(together: pa.Table, stamp_at_least: int) -> list[int]:
    """Returns the lowest explicit timestamp at or above `stamp_at_least` in columns that also have cells without one.

    `together` is sorted. The list is empty if there is no such timestamp.
    """
    same_column = equals_previous(column(together, 0)) & equals_previous(column(together, 1))
    number_of_column = np.cumsum(~same_column) - 1
    is_missing = numpy_mask(column(together, 2).is_null())
    is_mixed = np.zeros(len(is_missing), np.bool_)
    is_mixed[number_of_column[is_missing]] = True
    ordering = integers(column(together, 5))
    ahead = ordering[~is_missing & is_mixed[number_of_column] & (ordering >= stamp_at_least)]
    return [int(ahead.min())] if len(ahead) else []


def _integer(value: int) -> Any:  # Any: pyarrow's stubs give scalars no common type
    """Returns an int64 scalar; not by pa.scalar, which imports pandas if it is installed."""
    return integer_array([value], pa.int64())[0]


def _one_array(values: Chunks) -> Column:
    """Returns the single chunk of a column."""
    assert values.num_chunks == 1, values.num_chunks
    return values.chunks[0]


def _kinds(values: Chunks, count: int) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    kind = np.full(count, PUT, np.int8)
    if values.null_count:
        kind[numpy_mask(_one_array(values.is_null()))] = DELETE_COLUMN
    return kind


def _is_sorted(together: pa.Table) -> bool:
    """Whether the cells are in store order already, as they are when a client sends rows sorted by key."""
    rows, qualifiers = column(together, 0), column(together, 1)
    same_row = equals_previous(rows)
    if not ascends(rows, same_row):
        return False
    same_column = same_row & equals_previous(qualifiers)
    if not ascends(qualifiers, ~same_row | same_column):
        return False
    if not same_column.any():
        return True
    ordering, kind = integers(column(together, 5)), kinds(column(together, 3))
    newer_first = ordering[1:] < ordering[:-1]
    tombstone_first = (ordering[1:] == ordering[:-1]) & (kind[1:] <= kind[:-1])
    return bool((newer_first | tombstone_first | ~same_column[1:]).all())


def ascends(values: Column, excused: Mask) -> bool:
    """Whether each value is greater than the one before it, except where `excused`."""
    if len(values) < 2:
        return True
    greater = pc.greater(values.slice(1), values.slice(0, len(values) - 1))
    return bool(pc.all(pc.or_(greater, boolean_array(excused[1:]))).as_py())


def _survivors(together: pa.Table, positions: Integers) -> Mask:
    """Masks the sorted cells that remain: the last of equal ones, and no put covered by a later delete of the batch."""
    kind, ordering = kinds(column(together, 3)), integers(column(together, 5))
    same_column = equals_previous(column(together, 0)) & equals_previous(column(together, 1))
    repeats = same_column.copy()
    repeats[1:] &= (ordering[1:] == ordering[:-1]) & (kind[1:] == kind[:-1])
    survives = np.ones(len(kind), np.bool_)
    survives[:-1] = ~repeats[1:]
    is_tombstone = kind != PUT
    if is_tombstone.any():
        # Per column, newest first: the greatest batch position of a tombstone at or above each cell.
        group = np.cumsum(~same_column) - 1
        span = len(kind) + 1
        reach = np.where(is_tombstone, positions + 1, 0) + group * span
        covered_through = np.maximum.accumulate(reach) - group * span - 1
        survives &= is_tombstone | (covered_through < positions)
    return survives


def stamped(cells: pa.Table, write_number: int, stamp: int) -> pa.Table:
    """Converts FAMILY_CELLS_SCHEMA to CELL_SCHEMA: adds the write number, and the stamp where a timestamp is missing.

    Version 0.1.0 logged batches that were not always in order for their stamp. So a batch in which only some cells have
    a timestamp is sorted again.
    """
    count = cells.num_rows
    timestamps = _one_array(cells.column("timestamp"))
    has_both = 0 < timestamps.null_count < count
    if timestamps.null_count == count:
        filled = integer_array(np.full(count, stamp, np.int64), pa.int64())
    else:
        filled = timestamps.fill_null(_integer(stamp))
    table = pa.Table.from_arrays(
        [
            column(cells, 0),
            column(cells, 1),
            filled,
            integer_array(np.full(count, write_number, np.int64), pa.int64()),
            column(cells, 3),
            column(cells, 4),
        ],
        schema=CELL_SCHEMA,
    )
    if has_both:
        table = single_chunk(table.take(pc.sort_indices(table, sort_keys=_STAMPED_ORDER)))
    return table
