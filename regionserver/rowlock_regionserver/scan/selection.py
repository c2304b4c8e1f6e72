"""What a read answers of a row: its checks, and the choice among one row's cells.

In this order: the columns asked; of their visible versions those in the time range; of these the newest `versions`;
then, if the row matches `where`, the CellFilter: qualifiers, values, the row's first cell only, and last the page of
`cell_limit` cells after `cell_offset`, counted over all families of the row.

selection_columns.py does the same to whole windows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rowlock_regionserver.cells import Family
from rowlock_regionserver.config import Config
from rowlock_regionserver.errors import InvalidRequestError
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
    misfit_error,
)
from rowlock_regionserver.scan.values import compare_value
from rowlock_regionserver.sources import FoundAnswer, FoundCell, loaded

# Qualifiers asked by family; None: all of the family. A family that is not in it is not asked.
QualifiersAsked = Mapping[bytes, frozenset[bytes] | None]


def check_selection(selection: Selection, family_names: Collection[bytes], config: Config) -> None:
    """Refuses a selection that can't be read; to be called before anything is done.

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
        raise InvalidRequestError(f"{selection.versions} versions were asked; ask at least 1")
    if selection.where is not None:
        check_filter(selection.where, family_names, config)
    _check_cell_filter(selection.cells)


def _check_cell_filter(cells: CellFilter) -> None:
    start, stop = cells.qualifier_start, cells.qualifier_stop
    if start and stop and stop < start:
        raise InvalidRequestError(f"the qualifier range [{start!r}, {stop!r}) stops before it starts; swap the two")
    if cells.value_op is not None:
        check_operand(cells.value_operand, cells.value_type)
    if cells.cell_offset < 0 or cells.cell_limit < 0:
        raise InvalidRequestError(
            f"a page of {cells.cell_limit} cells after {cells.cell_offset} was asked; neither may be negative"
        )


def check_plan(plan: ScanPlan, family_names: Collection[bytes], config: Config) -> None:
    """Refuses a scan that can't be made, as check_selection does; also a range that stops before it starts."""
    check_selection(plan.selection, family_names, config)
    for start, stop in plan.ranges:
        if stop and stop < start:
            raise InvalidRequestError(
                f"the range [{start!r}, {stop!r}) stops before it starts; swap the two (also for a reverse scan)"
            )
    if plan.row_limit < 0:
        raise InvalidRequestError(f"a limit of {plan.row_limit} rows was asked; 0 is no limit")
    if plan.batch_bytes < 1 or plan.batch_rows < 1:
        raise InvalidRequestError(
            f"batches of {plan.batch_bytes} bytes and {plan.batch_rows} rows were asked; ask at least 1 of each"
        )


def qualifiers_asked(columns: Sequence[ColumnSelector]) -> QualifiersAsked | None:
    """The columns asked, by family; None: everything. A whole family includes whatever single columns are named."""
    if not columns:
        return None
    asked: dict[bytes, frozenset[bytes] | None] = {}
    for column in columns:
        before = asked.get(column.family, frozenset())
        if column.qualifier is None or before is None:
            asked[column.family] = None
        else:
            asked[column.family] = before | {column.qualifier}
    return asked


def is_whole_time(selection: Selection) -> bool:
    """No timestamp is outside of the time range."""
    return selection.time_start == 0 and selection.time_stop == 0


def chosen_versions(cells: Sequence[FoundCell], selection: Selection, family: Family) -> Sequence[FoundCell]:
    """Of one row's visible cells in store order, those in the time range, at most `versions` of each column."""
    if not is_whole_time(selection):
        start, stop = selection.time_start, selection.time_stop
        cells = [cell for cell in cells if -cell[1] >= start and (stop == 0 or -cell[1] < stop)]
    if selection.versions >= family.versions:
        return cells
    chosen = []
    qualifier: bytes | None = None
    count = 0
    for cell in cells:
        if cell[0] != qualifier:
            qualifier = cell[0]
            count = 0
        count += 1
        if count <= selection.versions:
            chosen.append(cell)
    return chosen


def filtered_cells(cells: list[FoundAnswer], row: bytes, cell_filter: CellFilter) -> list[FoundAnswer]:
    """Of one row's answer, over all families and in order, what the CellFilter leaves.

    Raises FilterTypeError when one of the cells that its qualifiers leave doesn't fit the type of its comparison.
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
        raise misfit_error(row, family, qualifier, value, cell_filter.value_type) from error
