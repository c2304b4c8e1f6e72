"""Selects the cells that a read answers, for a whole window at once: the vector twin of selection.py."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from rowlock_regionserver.arrow.by_qualifier import by_qualifier
from rowlock_regionserver.arrow.columns import (
    QUALIFIER,
    ROW,
    TIMESTAMP,
    Integers,
    Mask,
    column,
    equals_previous,
    integers,
)
from rowlock_regionserver.arrow.masks import compares, is_one_of, matches_pattern
from rowlock_regionserver.arrow.sorted_cells import changes, places_in_runs
from rowlock_regionserver.arrow.sorted_run import Values
from rowlock_regionserver.operations import CellFilter, CompareOp, PatternKind, Selection
from rowlock_regionserver.scan.filter_columns import NewestValues
from rowlock_regionserver.scan.selection import is_whole_time
from rowlock_regionserver.scan.values import compare_column


def selection_mask(
    table: pa.Table, qualifiers: frozenset[bytes] | None, selection: Selection, versions_max: int
) -> Mask:
    """Returns which visible cells of a family have a requested qualifier, a timestamp in range, and are new enough.

    The table is sorted, has one chunk a column, and at most `versions_max` versions of a column.
    """
    mask = in_times(integers(column(table, TIMESTAMP)), selection)
    if qualifiers is not None:
        mask &= by_qualifier(table, partial(is_one_of, operands=qualifiers))
    if selection.versions < versions_max:
        same_column = equals_previous(column(table, ROW)) & equals_previous(column(table, QUALIFIER))
        drop_older_versions(mask, np.cumsum(~same_column, dtype=np.int64), selection.versions)
    return mask


def in_times(timestamps: Integers, selection: Selection) -> Mask:
    """Returns which timestamps are in the selection's range."""
    mask = np.ones(len(timestamps), np.bool_)
    if not is_whole_time(selection):
        mask &= timestamps >= selection.time_start
        if selection.time_stop:
            mask &= timestamps < selection.time_stop
    return mask


def drop_older_versions(mask: Mask, columns: Integers, versions: int) -> None:
    """Clears the mask where a column has this many newer cells in it; `columns` numbers each cell's column."""
    selected = np.flatnonzero(mask)
    mask[selected[places_in_runs(columns[selected]) >= versions]] = False


def newest_values(table: pa.Table, values: Values, rows: Integers, qualifier: bytes) -> NewestValues:
    """Returns a column's newest visible value in each row; `rows` has the place of each cell's row in the window."""
    found = np.flatnonzero(compares(column(table, QUALIFIER), CompareOp.EQUAL, qualifier))
    found = found[changes(rows[found])]
    return NewestValues(rows[found], values.array(found))


def qualifiers_pass(table: pa.Table, cell_filter: CellFilter) -> Mask:
    """Returns which cells have a qualifier that passes the CellFilter."""
    qualifiers = column(table, QUALIFIER)
    mask = np.ones(table.num_rows, np.bool_)
    if cell_filter.qualifier_prefix:
        mask &= matches_pattern(qualifiers, PatternKind.STARTS_WITH, cell_filter.qualifier_prefix)
    if cell_filter.qualifier_start:
        mask &= compares(qualifiers, CompareOp.GREATER_OR_EQUAL, cell_filter.qualifier_start)
    if cell_filter.qualifier_stop:
        mask &= compares(qualifiers, CompareOp.LESS, cell_filter.qualifier_stop)
    return mask


def values_pass(values: Values, candidates: Mask, cell_filter: CellFilter) -> tuple[Mask, Integers]:
    """Returns which candidates have a value that passes the CellFilter, and the places of type mismatches."""
    if cell_filter.value_op is None or not candidates.any():
        return candidates, np.zeros(0, np.int64)
    places = np.flatnonzero(candidates)
    matches, fits = compare_column(
        values.array(places), cell_filter.value_op, cell_filter.value_operand, cell_filter.value_type
    )
    mask = np.zeros(len(candidates), np.bool_)
    mask[places[matches]] = True
    return mask, places[~fits]


def on_page(places: Integers, cell_filter: CellFilter) -> Mask:
    """Returns which places among the cells of a row, from 0 and over all families, are on the page."""
    mask = np.ones(len(places), np.bool_)
    if cell_filter.first_key_only:
        mask &= places < 1
    if cell_filter.cell_offset:
        mask &= places >= cell_filter.cell_offset
    if cell_filter.cell_limit:
        mask &= places < cell_filter.cell_offset + cell_filter.cell_limit
    return mask
