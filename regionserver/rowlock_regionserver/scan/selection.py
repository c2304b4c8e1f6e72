"""Checks a selection, and applies it to the cells of one row.

The steps are, in this order: the requested columns; their visible versions in the time range; the newest `versions` of
these; and, if the row matches `where`, the CellFilter: qualifiers, values, the row's first cell only, and last the page
of `cell_limit` cells after `cell_offset`, counted over all families of the row.

selection_columns.py applies the same rules to whole windows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rowlock_proto.shown_names import name_text, row_text

from rowlock_regionserver.cells import Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError
from rowlock_regionserver.found_cells import FoundAnswer, FoundCell, loaded
from rowlock_regionserver.operations import (
    EVERYTHING,
    CellFilter,
    ColumnSelector,
    ScanPlan,
    Selection,
)
from rowlock_regionserver.scan.filters import (
    check_family,
    check_filter,
    check_operand,
    check_qualifier,
    mismatch_error,
)
from rowlock_regionserver.scan.values import compare_value

# Requested qualifiers by family; None means the whole family. A family that is missing is not requested.
RequestedQualifiers = Mapping[bytes, frozenset[bytes] | None]


def check_selection(selection: Selection, family_names: Collection[bytes], config: Config) -> None:
    """Checks that the selection can be read from a table with these families, before anything is done.

    Raises InvalidRequestError, FamilyNotFoundError, LimitExceededError or FilterTypeError.
    """
    if selection is EVERYTHING:
        return
    for column in selection.columns:
        check_family(column.family, family_names)
        if column.qualifier is not None:
            check_qualifier(column.family, column.qualifier, config)
    start, stop = selection.time_start, selection.time_stop
    if start < 0 or stop < 0:
        raise InvalidRequestError(f"the time range [{start}, {stop}) is negative; timestamps start at 0")
    if stop and stop < start:
        raise InvalidRequestError(f"the time range [{start}, {stop}) stops before it starts; swap the two")
    if selection.versions < 1:
        raise InvalidRequestError(f"{selection.versions} versions were requested; request at least 1")
    if selection.where is not None:
        check_filter(selection.where, family_names, config)
    _check_cell_filter(selection.cells)


def _check_cell_filter(cells: CellFilter) -> None:
    start, stop = cells.qualifier_start, cells.qualifier_stop
    if start and stop and stop < start:
        raise InvalidRequestError(
            f"the qualifier range [{name_text(start)}, {name_text(stop)}) stops before it starts; swap the two"
        )
    if cells.value_op is not None:
        check_operand(cells.value_operand, cells.value_type)
    if cells.cell_offset < 0 or cells.cell_limit < 0:
        raise InvalidRequestError(
            f"a page of {cells.cell_limit} cells after {cells.cell_offset} was requested; neither may be negative"
        )


def check_plan(plan: ScanPlan, family_names: Collection[bytes], config: Config) -> None:
    """Checks that the scan can be made. Raises what check_selection raises.

    Raises InvalidRequestError also for a range that stops before it starts and for limits out of range.
    """
    check_selection(plan.selection, family_names, config)
    for start, stop in plan.ranges:
        if stop and stop < start:
            raise InvalidRequestError(
                f"the range [{row_text(start)}, {row_text(stop)}) stops before it starts; swap the two (also for a "
                "reverse scan)"
            )
    if plan.row_limit < 0:
        raise InvalidRequestError(f"a limit of {plan.row_limit} rows was requested; 0 means no limit")
    if plan.batch_bytes < 1 or plan.batch_rows < 1:
        raise InvalidRequestError(
            f"batches of {plan.batch_bytes} bytes and {plan.batch_rows} rows were requested; request at least 1 of each"
        )


def requested_qualifiers(columns: Sequence[ColumnSelector]) -> RequestedQualifiers | None:
    """Returns the requested columns by family; None means everything. A whole family includes its single columns."""
    if not columns:
        return None
    requested: dict[bytes, frozenset[bytes] | None] = {}
    for column in columns:
        before = requested.get(column.family, frozenset())
        if column.qualifier is None or before is None:
            requested[column.family] = None
        else:
            requested[column.family] = before | {column.qualifier}
    return requested


def selects_columns_only(selection: Selection) -> bool:
    """Returns whether it selects the newest version of columns, or of all, and nothing more."""
    return selection is EVERYTHING or replace(selection, columns=()) == EVERYTHING


def is_whole_time(selection: Selection) -> bool:
    """Returns whether the time range contains every timestamp."""
    return selection.time_start == 0 and selection.time_stop == 0


def selected_versions(cells: Sequence[FoundCell], selection: Selection, family: Family) -> Sequence[FoundCell]:
    """Returns the cells in the time range, at most `versions` of each column; `cells` are one row's, in store order."""
    if not is_whole_time(selection):
        start, stop = selection.time_start, selection.time_stop
        cells = [cell for cell in cells if -cell[1] >= start and (stop == 0 or -cell[1] < stop)]
    if selection.versions >= family.versions:
        return cells
    selected = []
    qualifier: bytes | None = None
    count = 0
    for cell in cells:
        if cell[0] != qualifier:
            qualifier = cell[0]
            count = 0
        count += 1
        if count <= selection.versions:
            selected.append(cell)
    return selected


def filtered_cells(cells: list[FoundAnswer], row: bytes, cell_filter: CellFilter) -> list[FoundAnswer]:
    """Returns the cells that pass the CellFilter; `cells` is one row's answer over all families, in order.

    Raises FilterTypeError when the value of a cell whose qualifier passes doesn't fit the type of the comparison.
    """
    prefix, start, stop = cell_filter.qualifier_prefix, cell_filter.qualifier_start, cell_filter.qualifier_stop
    if prefix:
        cells = [cell for cell in cells if cell[1].startswith(prefix)]
    if start:
        cells = [cell for cell in cells if cell[1] >= start]
    if stop:
        cells = [cell for cell in cells if cell[1] < stop]
    if cell_filter.value_op is not None:
        cells = [cell for cell in cells if _value_matches(cell, row, cell_filter)]
    if cell_filter.first_key_only:
        cells = cells[:1]
    if cell_filter.cell_offset or cell_filter.cell_limit:
        first = cell_filter.cell_offset
        cells = cells[first : first + cell_filter.cell_limit] if cell_filter.cell_limit else cells[first:]
    if cell_filter.keys_only:
        cells = [(family, qualifier, timestamp, b"") for family, qualifier, timestamp, _ in cells]
    return cells


def _value_matches(cell: FoundAnswer, row: bytes, cell_filter: CellFilter) -> bool:
    family, qualifier = cell[:2]
    value = loaded(cell[3])
    assert cell_filter.value_op is not None
    try:
        return compare_value(value, cell_filter.value_op, cell_filter.value_operand, cell_filter.value_type)
    except ValueError as error:
        raise mismatch_error(row, family, qualifier, value, cell_filter.value_type) from error
