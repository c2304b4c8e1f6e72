"""Gets of rows that are one line of a store file or of a batch in memory, and gets that the client encodes by hand."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

_WIDE_BLOCKS = "unit/storefile/test_wide_blocks.py"
_SEGMENTS = "unit/memstore/test_lines_segment.py"
_GROUPS = "unit/memstore/test_segment_group.py"
_VALUES_GET = "unit/client/test_values_get.py"
_LINES = "unit/region/test_line_gets.py"
_ENCODED = "unit/rpc/test_row_values.py::test_a_line_is_encoded_as_its_cells_are"

LINE_GET_MUTANTS = [
    Mutant(
        "a line is answered that is newer than the read point",
        "read_line",
        "line is None or line.write_number > read_point.write_number",
        "line is None",
        f"{_LINES}::test_a_line_that_was_written_after_the_read_point_is_not_seen",
    ),
    Mutant(
        "a line is answered although a newer source has the row",
        "read_line",
        "if held is not None or len(sources) > 1:",
        "if held is not None:",
        f"{_LINES}::test_what_is_newer_in_memory_or_in_a_file_is_seen",
    ),
    Mutant(
        "a line is answered without the row's cells in another family",
        "read_line",
        "if held is not None or len(sources) > 1:",
        "if len(sources) > 1:",
        f"{_LINES}::test_a_row_with_cells_in_two_families_has_both",
    ),
    Mutant(
        "a line is answered that has expired",
        "read_line",
        " or of_store.time_to_live_ms",
        "",
        f"{_LINES}::test_a_line_that_has_expired_is_not_seen",
    ),
    Mutant(
        "a line is answered that was gone before its family was altered",
        "read_line",
        "of_store.past or ",
        "",
        f"{_LINES}::test_a_line_that_has_expired_is_not_seen",
    ),
    Mutant(
        "a row of several lines is answered as one",
        "WideBlock.line",
        "if stop - line != 1:",
        "if stop == line:",
        f"{_WIDE_BLOCKS}::test_only_a_row_of_one_line_is_given_as_one",
    ),
    Mutant(
        "a line is answered with columns that it does not have",
        "WideBlock.__init__",
        "column[:3] == (None, None, None)",
        "column[1:3] == (None, None)",
        f"{_LINES}::test_rows_without_some_of_the_columns_have_no_others",
    ),
    Mutant(
        "a row of several lines of a batch is answered as one",
        "LinesOfRow.line",
        " if self._stop - self._start == 1 else None",
        "",
        f"{_SEGMENTS}::test_only_a_whole_line_is_given_as_one",
    ),
    Mutant(
        "a line of a batch is answered without a column that it lacks",
        "LineColumns.__init__",
        "self._is_by_cell or any(column.has_nulls for column in self._columns)",
        "self._is_by_cell",
        f"{_SEGMENTS}::test_only_a_whole_line_is_given_as_one",
    ),
    Mutant(
        "a line of a batch is answered with the time of its first column",
        "LineColumns.__init__",
        "self._is_by_cell or any(column.has_nulls for column in self._columns)",
        "any(column.has_nulls for column in self._columns)",
        f"{_SEGMENTS}::test_only_a_whole_line_is_given_as_one",
    ),
    Mutant(
        "a group finds only one of its segments",
        "SegmentGroup.__init__",
        " << np.uint32(place)",
        "",
        f"{_GROUPS}::test_every_segment_that_has_a_row_is_found_and_few_others",
    ),
    Mutant(
        "a row that shares its place with others is not found by a group",
        "SegmentFilter.quarters",
        "_QUARTERS_AS_ONE.take(",
        "(_QUARTERS_AS_ONE * (np.arange(256) < 255)).take(",
        f"{_GROUPS}::test_every_segment_that_has_a_row_is_found_and_few_others",
    ),
    Mutant(
        "a segment that was flushed is still found by its group",
        "grouped",
        "        if all(each in by_id for each in ids):\n            groups.append(group)\n",
        "        groups.append(group)\n        if all(each in by_id for each in ids):\n",
        f"{_GROUPS}::test_a_group_is_kept_until_one_of_its_segments_is_gone",
    ),
    Mutant(
        "a get looks in no group",
        "Lookup.candidates",
        "*in_groups, ",
        "",
        f"{_LINES}::test_gets_on_the_event_loop_answer_as_others_do",
    ),
    Mutant(
        "a condition looks in no group",
        "Lookup.candidates",
        "*in_groups, ",
        "",
        "unit/region/test_row_state.py::test_a_column_is_read_as_it_stands_in_the_row_whatever_the_sources",
    ),
    Mutant(
        "groups take memory that nobody counts",
        "SegmentFilter.byte_count",
        " * 3 // 2",
        "",
        f"{_GROUPS}::test_the_memory_of_a_group_is_counted_by_its_segments",
    ),
    Mutant(
        "a get does not look for a row in memory",
        "RowSegment.row_source",
        "self if row in self._rows else NOWHERE",
        "NOWHERE",
        f"{_LINES}::test_what_is_newer_in_memory_or_in_a_file_is_seen",
    ),
    Mutant(
        "the bytes of lines are not counted against the limit of an answer",
        "_found",
        "return line, line.byte_count",
        "return line, 0",
        f"{_LINES}::test_an_answer_of_lines_has_the_same_limit",
    ),
    Mutant(
        "a line is answered with columns that the get does not select",
        "read_line",
        "    if selection is not EVERYTHING:\n        return None\n",
        "",
        f"{_LINES}::test_only_what_a_get_selects_is_answered",
    ),
    Mutant(
        "a get of long lines is made on the event loop",
        "_found",
        "        if len(line) > cells_max:\n            raise LongRowError\n",
        "",
        f"{_LINES}::test_lines_of_too_many_cells_are_left_to_a_worker",
    ),
    Mutant(
        "what a get of a line decompresses is not counted",
        "HeldBlock.line",
        "self._blocks.look_up(self._number, self._block, self._block.line, row)",
        "self._block.line(row)",
        f"{_WIDE_BLOCKS}::test_what_a_line_decompresses_is_counted_by_the_cache",
    ),
    Mutant(
        "the columns of a line are kept however large they are",
        "_line_values",
        ' or len(b"".join(line.qualifiers)) > _COLUMN_BYTES_MAX',
        "",
        _ENCODED,
    ),
    Mutant(
        "a get names neither its region nor its deadline",
        "ValuesGet.encode",
        "_attempt(self.region_id, self.timeout_ms)",
        'b""',
        f"{_VALUES_GET}::test_it_is_encoded_as_protobuf_would",
        CLIENT,
    ),
    Mutant(
        "the first of several rows is the answer to a get of one",
        "values",
        "    if len(found) == 1:\n",
        "    if found:\n",
        f"{_VALUES_GET}::test_another_number_of_rows_is_an_error",
        CLIENT,
    ),
]
