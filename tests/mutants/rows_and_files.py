"""Broken builds of rows of any size, scans over many files, and the descriptors and names of store files."""

from __future__ import annotations

from .broken_build import Mutant

ALTERED = "unit/region/test_altered_scans.py"
CHUNKS = "unit/scan/test_source_chunks.py"
DESCRIPTORS = "unit/host/test_descriptors.py"
FLUSHES = "unit/region/test_large_flushes.py"
LONG = "unit/region/test_long_rows.py"
OPEN_FILES = "unit/storefile/test_open_files.py"
WIDE = "unit/scan/test_wide_rows.py"
WIDE_BLOCKS = "unit/storefile/test_wide_blocks.py"

ROWS_AND_FILES = [
    # ---- values are read last
    Mutant(
        "values are read with their keys",
        "Values.at",
        "        away = [(place, self._away[place]) for place in places",
        "        [value.load() for value in self._away.values()]\n"
        "        away = [(place, self._away[place]) for place in places",
        f"{WIDE}::test_of_a_replaced_large_cell_one_value_is_read",
    ),
    Mutant(
        "a scan loads all values of a window at once",
        "split_window",
        "        if byte_counts[start] > bytes_max and cell_counts[start] > 1:\n",
        "        if False:\n",
        f"{WIDE}::test_values_are_read_when_their_batch_is_made",
    ),
    # ---- rows in parts
    Mutant(
        "the page of a wide row is counted for each part",
        "_Page.take",
        "        self.count += int(passing.sum())\n",
        "        self.count = int(passing.sum())\n",
        f"{WIDE}::test_the_rest_of_a_wide_row_is_not_read_when_its_page_is_full",
    ),
    Mutant(
        "a family tombstone hides only cells of its part",
        "judged_with_family_tombstones",
        "    tombstones = _of_row(family_tombstones(sources, row))\n",
        "    tombstones = _of_row([])\n",
        f"{WIDE}::test_tombstones_of_the_family_reach_every_part",
    ),
    Mutant(
        "all cells of a long column are answered",
        "_long_column_runs",
        "        found = run.filter(numbers.among(run))\n",
        "        found = run\n",
        f"{WIDE}::test_visibility_of_a_column_that_is_larger_than_a_part_considers_all_of_it",
    ),
    Mutant(
        "a column's visibility is decided for each part",
        "column_parts",
        "        cut = held.take(part)\n",
        "        cut = 0\n",
        f"{WIDE}::test_visibility_of_a_column_that_is_larger_than_a_part_considers_all_of_it",
    ),
    Mutant(
        "the versions of a wide row are counted over its columns",
        "RowReading._selected",
        "mask, puts.column, self",
        "mask, np.zeros(len(mask), np.int64), self",
        f"{WIDE}::test_times_and_versions_are_chosen_of_each_column_of_a_wide_row",
    ),
    Mutant(
        "a wide row is returned as a step repeatedly",
        "SourceChunks._pass_wide_row",
        '        edge = row if self._reverse else row + b"\\x00"\n',
        "        edge = row\n",
        f"{CHUNKS}::test_a_wide_row_is_one_step_between_those_of_other_rows[False]",
    ),
    Mutant(
        "flush prunes the parts of a row without its tombstones",
        "_retained_of_row",
        "judged_with_family_tombstones(sources, row, rule)",
        "rule",
        f"{FLUSHES}::test_family_tombstones_count_in_every_part_of_a_row",
    ),
    Mutant(
        "existence is decided by all cells",
        "RowState.has_visible",
        "            return bool(visible_cells(self.family_cells(family, _FEW_CELLS), read_point, family))\n",
        "            return bool(visible_cells(self.family_cells(family), read_point, family))\n",
        f"{LONG}::test_existence_is_judged_by_the_first_live_cell",
    ),
    Mutant(
        "a long row is read on the event loop",
        "ReadPath._get",
        "INLINE_CELLS_MAX, reached, None",
        "1 << 62, reached, None",
        f"{LONG}::test_a_get_of_few_columns_is_made_at_once_and_one_of_the_row_is_not",
    ),
    # ---- many sources
    Mutant(
        "a scan holds all chunks that it has read",
        "SourceChunks._drop_surplus",
        "        if byte_count > self._bytes_held_max:\n",
        "        if False:\n",
        f"{CHUNKS}::test_the_buffers_are_bounded",
    ),
    Mutant(
        "a scan begins with all of its sources",
        "SourceChunks._read",
        "            if bytes_read >= bytes_max and not self._is_at_start(edge):\n",
        "            if all(buffer.is_read for buffer in self._buffers.values()):\n",
        f"{CHUNKS}::test_of_many_that_overlap_a_short_step_reads_few",
    ),
    # ---- families that are dropped meanwhile
    Mutant(
        "a dropped family looks empty to a scan",
        "ReadPath._sources_of",
        "            if number not in view:\n",
        "            if False:\n",
        f"{ALTERED}::test_a_scan_that_names_a_family_which_is_dropped_meanwhile_does_not_look_complete",
    ),
    Mutant(
        "a filter names no family",
        "_families_named",
        "    return _families_of(plan.selection).union(",
        "    return {column.family for column in plan.selection.columns}.union(",
        f"{ALTERED}::test_a_scan_that_names_a_family_which_is_dropped_meanwhile_does_not_look_complete",
    ),
    Mutant(
        "a snapshot reads the family that has the name now",
        "_check_same_families",
        "        if past_table.number_by_name.get(name, number) != number:\n",
        "        if False:\n",
        f"{ALTERED}::test_a_scan_of_a_snapshot_does_not_take_a_later_family_for_one_of_the_same_name",
    ),
    Mutant(
        "a removed region is read as an empty one",
        "Stores._release_if_retired",
        "            self.served = Served(self.served.table, _ClosedView(), _ClosedView())\n",
        "            self.served = Served(self.served.table, {}, {})\n",
        f"{DESCRIPTORS}::test_a_removed_region_is_never_read_as_an_empty_one",
    ),
    # ---- descriptors and names
    Mutant(
        "a read opens any file that has the name",
        "OpenFiles._opened",
        "            elif found != handle.identity:\n",
        "            elif False:\n",
        f"{OPEN_FILES}::test_a_file_that_is_another_one_when_it_is_opened_again_is_damage",
    ),
    Mutant(
        "descriptors are kept forever",
        "OpenFiles._pop_idle",
        "        count = len(self._open) - count_max\n",
        "        count = 0\n",
        f"{OPEN_FILES}::test_descriptors_are_bounded_and_the_least_recently_used_goes",
    ),
    Mutant(
        "a descriptor is closed while it is read from",
        "OpenFiles._pop_idle",
        " for number, opened in self._open.items() if not opened.borrowed_count)\n",
        " for number, opened in self._open.items())\n",
        f"{OPEN_FILES}::test_a_descriptor_stays_open_during_a_read_whatever_else_is_opened",
    ),
    Mutant(
        "a file is removed while a read uses it",
        "Handle.remove_when_unused",
        "        self.remove_on_release = True\n",
        "        self.remove_on_release = True\n        self.path.unlink()\n",
        f"{OPEN_FILES}::test_a_file_is_removed_with_its_last_reference_and_can_be_read_until_then",
    ),
    Mutant(
        "a scan does not hold the files of a removed table",
        "ReadPath.scan",
        "                self._stores.pinned(),\n",
        "                contextlib.nullcontext(),\n",
        f"{DESCRIPTORS}::test_a_scan_reads_a_removed_table_to_its_end_and_then_its_files_go",
    ),
    Mutant(
        "a lack of descriptors counts as a failed disk",
        "NO_DESCRIPTOR",
        "NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})\n",
        "NO_DESCRIPTOR = frozenset()\n",
        f"{OPEN_FILES}::test_without_any_descriptor_a_read_can_be_tried_again",
    ),
    Mutant(
        "idle descriptors are not closed when another file needs one",
        "Files.with_descriptor",
        "            self.close_idle()\n",
        "",
        f"{OPEN_FILES}::test_without_a_free_descriptor_an_idle_one_is_closed",
    ),
    # ---- wide blocks
    Mutant(
        "the checksum of a chunk is not looked at",
        "WideChunks.check",
        "        if computed != expected:\n",
        "        if False:\n",
        f"{WIDE_BLOCKS}::test_a_wrong_byte_of_a_plain_chunk_is_no_answer",
    ),
    Mutant(
        "an absent cell of a line is read as empty bytes",
        "WideBlock._cells_of",
        "                if validity is not None and not validity[line >> 3] >> (line & 7) & 1:\n",
        "                if False:\n",
        f"{WIDE_BLOCKS}::test_an_empty_value_is_a_cell_and_a_null_is_none",
    ),
    Mutant(
        "a chunk of lines has the write number of its oldest block",
        "WideRun._chunk",
        "            write_number_max=max(",
        "            write_number_max=min(",
        f"{WIDE_BLOCKS}::test_a_chunk_has_the_statistics_of_its_blocks",
    ),
    Mutant(
        "the read-back of a wide block leaves out its chunks",
        "_read_back_and_sync",
        ".check_all()",
        "",
        f"{WIDE_BLOCKS}::test_a_chunk_that_was_not_written_as_it_should_fails_the_write",
    ),
    Mutant(
        "a block that grew is counted as when it was read",
        "WideBlocks.look_up",
        "            if block.bytes_held != before:\n",
        "            if False:\n",
        f"{WIDE_BLOCKS}::test_a_get_of_one_column_decompresses_one_and_the_cache_counts_what_it_holds",
    ),
    Mutant(
        "a block that grew for a row of too many cells is counted as when it was read",
        "WideBlocks.look_up",
        "        try:\n            return find(*args)\n        finally:\n"
        "            if block.bytes_held != before:\n"
        "                self.file.put(self._first_block + number, block)\n",
        "        found = find(*args)\n"
        "        if block.bytes_held != before:\n            self.file.put(self._first_block + number, block)\n"
        "        return found\n",
        f"{WIDE_BLOCKS}::test_what_a_row_of_too_many_cells_decompresses_is_counted_by_the_cache",
    ),
    Mutant(
        "a get of many rows loads all of their blocks on the event loop",
        "ReadPath._views_in_memory",
        "            if seconds_left < 0:\n",
        "            if False:\n",
        "unit/region/test_read_path.py::test_a_get_of_many_rows_loads_blocks_on_the_event_loop_only_for_a_moment",
    ),
    Mutant(
        "a get asks every file twice",
        "Lookup.row_sources",
        'found.append(cast("RowSource", of_row))',
        "found.append(source)",
        "unit/region/test_read_path.py::test_a_get_on_the_event_loop_asks_the_files_without_the_row_once",
    ),
]
