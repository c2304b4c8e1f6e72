"""Broken builds of scans whose batches read their rows by themselves."""

from __future__ import annotations

from .broken_build import Mutant

UNREAD = "unit/scan/test_unread_rows.py"
STORED_LINES = "unit/arrow/test_stored_lines.py"

UNREAD_ROWS = [
    Mutant(
        "blocks with values of other lengths are read as those before them",
        "StoredBlocks.leaves_unread",
        "(each.qualifiers, each.chunks) == (form.qualifiers, form.chunks)",
        "each.qualifiers == form.qualifiers",
        f"{UNREAD}::test_a_window_of_blocks_with_other_widths_is_read_at_once",
    ),
    Mutant(
        "compressed blocks are left unread",
        "StoredBlocks.leaves_unread",
        "shares_of(directory, self.wanted).may_stay_unread for directory",
        "True for directory",
        f"{UNREAD}::test_compressed_blocks_after_plain_ones_are_not_left_unread",
    ),
    Mutant(
        "large blocks are kept for the rows that a later batch reads",
        "StoredBlocks.leaves_unread",
        " or max([index.raw_bytes[number] for number in self.numbers]) > _UNREAD_BLOCK_BYTES_MAX",
        "",
        f"{UNREAD}::test_large_blocks_are_not_left_unread",
    ),
    Mutant(
        "rows without a column that is wanted are left unread",
        "shares_of",
        "are_plain and has_all and len",
        "are_plain and len",
        f"{UNREAD}::test_a_column_that_the_table_lacks_is_null",
    ),
    Mutant(
        "large windows of rows with many columns become cells",
        "shares_of",
        "len(form.columns) <= wanted.unread_columns_max",
        "wanted.unread_columns_max > 0",
        f"{UNREAD}::test_rows_of_many_columns_may_have_to_become_cells",
    ),
    Mutant(
        "a window that is read at once looks for its keys twice",
        "WideRun._stored_window",
        "bytes_max, wanted, shares, reader)",
        "bytes_max, wanted, shares)",
        f"{UNREAD}::test_a_window_looks_for_keys_once",
    ),
    Mutant(
        "a window has any number of keys",
        "WideRun._reader",
        " or key_bytes > bytes_max",
        "",
        f"{UNREAD}::test_a_window_of_narrow_rows_has_the_keys_of_a_window",
    ),
    Mutant(
        "a cached block with other widths is taken for alike",
        "WideBlocks.keys_or_directories",
        "{number: block.directory for number, block in blocks.items() if isinstance(block, WideBlock)}",
        "{}",
        f"{UNREAD}::test_cached_blocks_with_other_widths_are_not_left_unread",
    ),
    Mutant(
        "a block that is read whole counts nothing",
        "StoredBlocks.read",
        "        self._read_bytes += chunks.bytes_held\n",
        "",
        f"{UNREAD}::test_a_block_that_is_kept_for_the_next_batch_is_counted",
    ),
    Mutant(
        "large windows are merged with other sources",
        "SourceChunks._is_alone",
        "return all(each.frontier is None and not each.chunks for each in others)",
        "return True",
        f"{UNREAD}::test_rows_before_those_of_another_source_are_read_at_once",
    ),
    Mutant(
        "large windows are searched for lines that the read point sees",
        "WindowReader._wanted",
        "0 if self._hides_lines(family, sources) else self._unread_columns_max",
        "self._unread_columns_max",
        f"{UNREAD}::test_rows_that_may_be_hidden_are_read_at_once",
    ),
    Mutant(
        "rows that are compared are left unread",
        "_leaves_unread",
        "plan.selection.where is None and ",
        "",
        f"{UNREAD}::test_other_scans_read_a_window_at_once",
    ),
    Mutant(
        "rows that are read backwards are left unread",
        "_leaves_unread",
        " and not plan.reverse",
        "",
        f"{UNREAD}::test_other_scans_read_a_window_at_once",
    ),
    Mutant(
        "a limited scan takes the keys of rows that it does not answer",
        "_leaves_unread",
        " and not plan.row_limit",
        "",
        f"{UNREAD}::test_other_scans_read_a_window_at_once",
    ),
    Mutant(
        "small batches read their rows by themselves",
        "_leaves_unread",
        "is_of_all and plan.batch_bytes >= UNREAD_BYTES_MIN",
        "is_of_all",
        f"{UNREAD}::test_other_scans_read_a_window_at_once",
    ),
    Mutant(
        "a window that is read at once counts its keys only",
        "WideRun._stored_window",
        "reader.bytes_held if reader.leaves_unread else clipped.bytes_held",
        "reader.bytes_held",
        f"{UNREAD}::test_a_scan_counts_the_rows_that_it_has_read",
    ),
    Mutant(
        "a window that stays unread counts all its values",
        "WideRun._stored_window",
        "reader.bytes_held if reader.leaves_unread else clipped.bytes_held",
        "clipped.bytes_held",
        f"{UNREAD}::test_a_scan_counts_the_rows_that_it_has_read",
    ),
    Mutant(
        "unread rows of other columns are joined",
        "UnreadRows.followed_by",
        "part.unread != self.unread or not part.schema.equals(self.schema)",
        "False",
        f"{UNREAD}::test_rows_of_two_windows_with_other_columns_are_joined_when_they_are_read",
    ),
    Mutant(
        "a slice of lines begins with its first block",
        "StoredLines.slice",
        "BlockSlice(block, first + start - bounds[before], stop)",
        "BlockSlice(block, first, stop)",
        f"{STORED_LINES}::test_a_slice_has_the_lines_between_its_bounds",
    ),
    Mutant(
        "a slice of lines ends with its last block",
        "StoredLines.slice",
        "BlockSlice(block, first, stop - (bounds[after] - end))",
        "BlockSlice(block, first, stop)",
        f"{STORED_LINES}::test_a_slice_has_the_lines_between_its_bounds",
    ),
    Mutant(
        "chunks of a block with another compression are taken for plain",
        "_ChosenChunks.are_of",
        " and directory.compressions == self._compressions",
        "",
        "unit/storefile/test_values_in_place.py::test_compressed_values_of_later_blocks_are_decompressed",
    ),
    Mutant(
        "blocks that are found together are not used last",
        "BlockCache.get_several",
        "                        self._blocks.move_to_end(key)\n",
        "                        pass\n",
        "unit/storefile/test_cache.py::test_several_blocks_are_found_as_one_by_one",
    ),
    Mutant(
        "a part of a column keeps the rest of it in memory",
        "as_binary",
        " or not len(column) * width == data.size <= _OFFSET_MAX",
        " or column.offset",
        "unit/arrow/test_line_values.py",
    ),
]
