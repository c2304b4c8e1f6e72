"""Broken builds of rows in wide form: what is visible of lines, and what several of them make of one row."""

from __future__ import annotations

from .broken_build import Mutant

ANSWER = "unit/scan/test_line_answer.py"
REDUNDANT = "unit/scan/test_redundant_rows.py"
LINES = "property/test_lines.py"
MERGE = "unit/scan/test_window_lines.py"
MODEL = "property/test_scan_against_model.py::test_lines_are_answered_as_the_model_answers"
CELLS = "property/test_scans_of_lines.py"
DENSE = "unit/arrow/test_dense_lines.py::test_lines_of_several_parts_become_cells_in_their_order"

OF_LINES = [
    Mutant(
        "rows in different columns are in one batch",
        "Batches.add",
        "if columns != self._columns:",
        "if columns and not self._columns:",
        CELLS,
    ),
    Mutant(
        "all columns are answered of rows in columns, whatever is selected",
        "Scan._window_answers",
        "takes_lines=plan.lines and selection == EVERYTHING",
        "takes_lines=plan.lines",
        CELLS,
    ),
    Mutant(
        "one timestamp is answered for all cells of a row that have several",
        "_timed_for_all",
        "if len(lines.timestamps) > 1:",
        "if False:",
        CELLS,
    ),
    Mutant(
        "a window with cells beside its lines is answered without them",
        "lines_as_rows",
        " or any(len(cells.run) for cells in window)",
        "",
        CELLS,
    ),
    Mutant(
        "several versions are read of lines that were merged to one a row",
        "Scan._window_answers",
        "newest_only=selection.versions == 1 and",
        "newest_only=",
        CELLS,
    ),
    Mutant(
        "a time range is read of lines that were merged to the newest cells",
        "Scan._window_answers",
        "newest_only=selection.versions == 1 and is_whole_time(selection)",
        "newest_only=selection.versions == 1",
        CELLS,
    ),
    Mutant(
        "the cells of merged lines are placed as if each part came first",
        "_moved",
        "slice(first + lines.start, first + lines.stop)",
        "lines",
        DENSE,
    ),
    Mutant(
        "newer values that are laid over stored lines do not become cells",
        "CompressedColumn.pieces",
        "if self.changes is not None:",
        "if False:",
        CELLS,
    ),
    Mutant(
        "the cells of merged lines have the timestamps of other rows",
        "cells_of_parts",
        "timestamps, write_numbers = numbers_at(timestamps, order), numbers_at(write_numbers, order)",
        "pass",
        DENSE,
    ),
    Mutant(
        "a window all of whose lines became cells is answered as if it had none",
        "FamilyCells.has_rows_beside_run",
        " or self.present is not None",
        "",
        f"{ANSWER}::test_a_row_stays_there_when_a_write_that_is_not_seen_covers_its_only_line",
    ),
    Mutant(
        "a null of a newer row hides an older cell",
        "_Folded._lay_column",
        "is_newer = is_present(upper.column)",
        "is_newer = np.ones(len(upper.column), np.bool_)",
        MODEL,
    ),
    Mutant(
        "a null of an older row has a newer timestamp",
        "_is_above",
        " if base.column.null_count else above",
        " if False else above",
        MODEL,
    ),
    Mutant(
        "the later of two lines wins whatever their timestamps",
        "_is_above",
        "(upper.timestamps > timestamps) | (",
        "(upper.write_numbers > write_numbers) | (",
        MODEL,
    ),
    Mutant(
        "of the versions of a row only the newest line is seen",
        "_levels",
        "        if not any(column.null_count",
        "        if True or not any(column.null_count",
        f"{MERGE}::test_versions_of_one_chunk_become_one_line",
    ),
    Mutant(
        "lines of rows that the longest part does not have are lost",
        "_Folded.lay",
        "return upper.filter(~is_here)",
        "return upper.filter(is_here & ~is_here)",
        f"{MERGE}::test_rows_of_different_chunks_are_put_in_order",
    ),
    Mutant(
        "lines pass with a cell beyond the read point",
        "WindowReader._are_seen",
        "return write_number_max <= self._read_point.write_number and not expires",
        "return not expires",
        MODEL,
    ),
    Mutant(
        "lines pass with an expired cell",
        "WindowReader._are_seen",
        "return write_number_max <= self._read_point.write_number and not expires",
        "return write_number_max <= self._read_point.write_number",
        MODEL,
    ),
    Mutant(
        "few columns are read of lines that a tombstone may hide",
        "WindowReader._wanted",
        "            if source.has_tombstones or is_line_hidden:\n",
        "            if is_line_hidden:\n",
        f"{ANSWER}::test_a_row_whose_cells_are_all_hidden_is_not_there_whatever_columns_are_read",
    ),
    Mutant(
        "few columns are read of lines that the read point may not see",
        "WindowReader._wanted",
        "            if source.has_tombstones or is_line_hidden:\n",
        "            if source.has_tombstones:\n",
        MODEL,
    ),
    Mutant(
        "rows that the read point does not see stand for those of other families",
        "RedundantRows._is_seen",
        "return timestamp_min is not None and self._are_seen(source.write_number_max, timestamp_min, family)",
        "return timestamp_min is not None",
        f"{REDUNDANT}::test_rows_that_are_not_seen_do_not_stand_for_others",
    ),
    Mutant(
        "rows that a tombstone may hide stand for those of other families",
        "RedundantRows._visible",
        "if any(source.has_tombstones for source in sources):",
        "if False:",
        f"{REDUNDANT}::test_rows_that_a_tombstone_may_hide_do_not_stand_for_others",
    ),
    Mutant(
        "older lines with a newer timestamp are not read",
        "_is_newer",
        "timestamp_min >= other.row_groups.timestamp_max",
        "True",
        f"{REDUNDANT}::test_columns_that_newer_lines_have_in_each_row_are_not_read",
    ),
    Mutant(
        "older lines are not read where newer ones have a null",
        "RemainingRows._remaining_columns",
        "columns -= groups.complete_columns[place]",
        "columns = frozenset()",
        f"{REDUNDANT}::test_columns_that_newer_lines_have_in_each_row_are_not_read",
    ),
    Mutant(
        "rows of the same lengths are taken for the same rows",
        "RowDigests._end_group",
        "self._lengths.digest() + self._rows.digest()",
        "self._lengths.digest()",
        "unit/storefile/test_row_digests.py::test_a_digest_is_that_of_the_lengths_and_the_rows",
    ),
    Mutant(
        "a row of narrow lines without a cell is lost",
        "_merged",
        "            if part.is_narrow:\n",
        "            if False:\n",
        f"{MERGE}::test_narrow_lines_say_that_their_rows_are_there",
    ),
    Mutant(
        "a cell is there, without its value, where its line has none",
        "_marks",
        "    bitmap = None if validity is None else raw_of(validity)\n",
        "    bitmap = None\n",
        "unit/region/test_values_not_read.py",
    ),
    Mutant(
        "a row is there whose only cells are hidden, of columns that are not read",
        "WindowReader._wanted",
        "                return LinesWanted(columns, marks_others=True)\n",
        "                return LinesWanted(columns)\n",
        f"{ANSWER}::test_a_row_whose_cells_are_all_hidden_is_not_there_whatever_columns_are_read",
    ),
    Mutant(
        "a row that has cells and lines passes as a line",
        "_merged",
        "    is_mixed[of_run] = True\n",
        "",
        f"{MERGE}::test_rows_with_cells_that_may_be_hidden_are_left_to_cells",
    ),
    Mutant(
        "an empty value of lines becomes an absent cell",
        "spread_values",
        "    if len(values) < line_count:\n",
        "    keeps = np.diff(offsets(values)) > 0\n"
        "    values, lines = values.filter(pa.array(keeps)), lines[keeps]\n"
        "    if len(values) < line_count:\n",
        f"{LINES}::test_lines_and_the_cells_left_are_the_same_cells",
    ),
    Mutant(
        "the numbers of a line are those of its first cell",
        "compact_numbers",
        "    if ((numbers == of_line) | ~present).all():\n",
        "    if True:\n",
        f"{LINES}::test_lines_and_the_cells_left_are_the_same_cells",
    ),
    Mutant(
        "a row with a tombstone becomes a line",
        "_of_small_rows",
        "    if cells.kind.any():\n",
        "    if False:\n",
        f"{LINES}::test_lines_and_the_cells_left_are_the_same_cells",
    ),
    Mutant(
        "a few long values make a column of zeros",
        "may_be_fixed_size",
        "    return width * line_count <=",
        "    return True or width * line_count <=",
        "unit/region/test_bulk_rows.py::test_a_few_long_values_do_not_make_a_column_of_zeros",
    ),
    Mutant(
        "lines that may become cells are bounded as lines",
        "_byte_count",
        "max(lines.bytes_held, cell_bytes // CELLS_OF_LINES)",
        "lines.bytes_held",
        "unit/region/test_short_values_of_many_columns.py::"
        "test_lines_that_may_become_cells_are_read_by_the_bytes_of_these[False-True]",
    ),
    Mutant(
        "a cell that the newest line lacks does not move up",
        "_newest_places",
        "    places[rows] = found[first_found]\n",
        "",
        LINES,
    ),
    Mutant(
        "a cell that moved up stays in its older line too",
        "divided_by_age",
        "mask=is_moved",
        "mask=None",
        LINES,
    ),
    Mutant(
        "older lines stand for all rows of their groups",
        "RedundantRows._visible",
        "source.row_groups.newer is None and",
        "",
        f"{REDUNDANT}::test_older_lines_do_not_stand_for_others",
    ),
    Mutant(
        "older lines are left out though their newer ones are not seen",
        "RedundantRows._without_redundant_rows",
        "source.row_groups.newer for each in visible",
        "source.row_groups.newer for each in sources",
        f"{REDUNDANT}::test_older_lines_are_not_read_where_their_newer_ones_are_seen",
    ),
    Mutant(
        "a block of older lines is taken from the cache for a wide block of its number",
        "WideBlocks.__init__",
        "_OLDER_KEYS if isinstance(index, OlderIndex) else 0",
        "0",
        "unit/storefile/test_older_lines.py::test_older_lines_have_blocks_of_their_own",
    ),
    Mutant(
        "older lines without a newest line are not noticed",
        "_verify",
        "newer_count < blocks.older_lines.row_count",
        "False",
        "unit/storefile/test_older_lines.py::test_older_lines_of_rows_without_a_newest_line_are_damage",
    ),
]
