"""Broken builds of bulk batches that come as rows."""

from __future__ import annotations

from .broken_build import Mutant

RETAINED = "unit/scan/test_retained_tables.py"
ROWS = "unit/region/test_bulk_rows.py"
MEMSTORE = "unit/memstore/test_memstore.py"
NULLS = f"{ROWS}::test_a_null_shows_what_is_older_and_empty_bytes_hide_it[500]"

BULK_ROWS = [
    Mutant(
        "a null of a newer row hides an older cell of a get",
        "_ValueColumn.value",
        "            return None\n",
        "            return b''\n",
        NULLS,
    ),
    Mutant(
        "absent cells of lines become cells",
        "cells_of",
        "    present = np.stack([is_present(column) for column in lines.columns])\n",
        "    present = np.ones((width, count), np.bool_)\n",
        "property/test_lines.py",
    ),
    Mutant(
        "a null of a repeated row hides the row before",
        "_Split._becomes_cell",
        "        return becomes_cell | ~present if self._batch.nulls_delete else becomes_cell & present\n",
        "        return becomes_cell | ~present\n",
        f"{ROWS}::test_only_repeated_rows_become_cells",
    ),
    Mutant(
        "an empty string becomes null",
        "LineColumns._cells",
        "                if value is not None:\n",
        "                if value:\n",
        NULLS,
    ),
    Mutant(
        "of repeated rows the first one is a line",
        "arrange_rows",
        "    repeated[:-1] |= same_as_previous[1:]\n",
        "",
        f"{ROWS}::test_only_repeated_rows_become_cells",
    ),
    Mutant(
        "a row without values is a line",
        "_Split._rows_with_line",
        "        return _any(of_lines, len(self._batch)) & ~self._by_cells\n",
        "        return ~self._by_cells\n",
        f"{ROWS}::test_a_row_without_values_has_no_line",
    ),
    Mutant(
        "a few bytes of rows become any number of cells",
        "_Split._check_size",
        "        if byte_count > bytes_max:\n",
        "        if False:\n",
        f"{ROWS}::test_few_bytes_that_would_be_many_as_cells_are_refused",
    ),
    Mutant(
        "a column of no bytes may have any number of rows",
        "_is_binary",
        "        return data_type.byte_width >= 1\n",
        "        return True\n",
        "unit/rpc/test_bulk_rows.py::test_another_schema_is_refused",
    ),
    Mutant(
        "an older server takes a log that has rows",
        "Pending.append",
        "        if kind > KIND_MAX_OF_FORMAT_2 and self._version < version_for(kind):\n",
        "        if False:\n",
        f"{ROWS}::test_an_older_server_refuses_a_log_with_rows_and_only_that[500]",
    ),
    Mutant(
        "a restart makes a log with rows readable for an older server",
        "begin_segment",
        "        version=max(FORMAT_VERSION, recovered.last_version),\n",
        "",
        f"{ROWS}::test_an_older_server_refuses_a_log_with_rows_and_only_that[500]",
    ),
    Mutant(
        "a batch that the log may refuse is merged with earlier ones",
        "Memstore._run_of",
        " or segment.write_number_max >= write_number:\n",
        ":\n",
        f"{MEMSTORE}::test_what_may_be_taken_back_or_is_being_flushed_is_not_merged",
    ),
    Mutant(
        "segments that a flush writes are merged with later ones",
        "Memstore.switch",
        "            self._unmerged_through = max([segment.write_number_max for segment in sealed], default=0)\n",
        "",
        f"{MEMSTORE}::test_what_may_be_taken_back_or_is_being_flushed_is_not_merged",
    ),
    Mutant(
        "a large segment of lines is merged with each small one",
        "Memstore._run_of",
        "            is_much_larger = bool(run) and segment.byte_count > 2 * byte_count\n",
        "            is_much_larger = False\n",
        f"{MEMSTORE}::test_many_small_segments_of_lines_become_few_and_each_line_is_merged_a_few_times",
    ),
    Mutant(
        "a flush writes two lines of a row from two segments",
        "merged_lines",
        "    return None if merged.has_versions else [merged]\n",
        "    return [merged]\n",
        f"{RETAINED}::test_lines_pass_as_they_are_where_no_row_is_in_two_sources",
    ),
    Mutant(
        "cells that can't be lines are lost when lines are formed of others",
        "_as_lines",
        "            if others.num_rows:\n                return None\n",
        "",
        f"{RETAINED}::test_single_puts_among_lines_are_merged_as_if_all_were_cells[True]",
    ),
    Mutant(
        "single puts among lines are lost",
        "_as_lines",
        "                lines.append(formed)\n",
        "                pass\n",
        f"{RETAINED}::test_single_puts_among_lines_are_merged_as_if_all_were_cells[False]",
    ),
    Mutant(
        "lines are formed of all cells, however many",
        "_as_lines",
        "        if cell_count > _FORMED_SHARE_MAX * ",
        "        if cell_count > 9 * ",
        f"{RETAINED}::test_lines_pass_as_they_are_where_no_row_is_in_two_sources",
    ),
    Mutant(
        "a line with an absent cell hides the older one",
        "newest_whole_lines",
        "        if any(column.null_count for column in part.values):\n            return None\n",
        "",
        f"{RETAINED}::test_single_puts_among_lines_are_merged_as_if_all_were_cells[False]",
    ),
    Mutant(
        "lines with a number for each cell are ordered by the first",
        "newest_whole_lines",
        "part.is_by_cell or ",
        "",
        f"{RETAINED}::test_single_puts_among_lines_are_merged_as_if_all_were_cells[False]",
    ),
    Mutant(
        "of two lines with one timestamp the older write wins",
        "_store_order",
        "(-write_numbers, -timestamps, ",
        "(write_numbers, -timestamps, ",
        f"{RETAINED}::test_single_puts_among_lines_are_merged_as_if_all_were_cells[False]",
    ),
    Mutant(
        "a flush writes all versions of lines",
        "merged_lines",
        "    if any(part.has_versions for part in parts):\n",
        "    if False:\n",
        f"{RETAINED}::test_lines_pass_as_they_are_where_no_row_is_in_two_sources",
    ),
    Mutant(
        "the memory of a message is counted for each family",
        "shares_kept_alive",
        "size // users[address]",
        "size",
        f"{ROWS}::test_the_memory_of_a_message_is_counted_once",
    ),
    Mutant(
        "bytes below nulls of a client's batch are kept",
        "without_bytes_below_nulls",
        "    return _spread(column, present) if below.any() else column\n",
        "    return column\n",
        "unit/rpc/test_bulk_rows.py::test_bytes_below_nulls_are_dropped",
    ),
    Mutant(
        "the columns of a segment of lines are not counted",
        "LinesSegment.__init__",
        " + _COLUMN_BYTES_BESIDE * len(lines.columns)",
        "",
        "unit/memstore/test_lines_segment.py::test_many_columns_are_counted_beside_their_values",
    ),
    Mutant(
        "the filter of a segment leaves out its first row",
        "SegmentFilter.__init__",
        "np.fromiter(map(hash, rows.to_pylist()), np.int64, len(rows))",
        "np.fromiter(map(hash, rows[1:].to_pylist()), np.int64)",
        "unit/memstore/test_segment_filter.py::test_every_row_passes_and_few_others_do",
    ),
    Mutant(
        "the filter of a segment is not counted",
        "LinesSegment.__init__",
        " + self._filter.byte_count",
        "",
        "unit/memstore/test_lines_segment.py::test_the_filter_of_the_rows_is_counted",
    ),
]
