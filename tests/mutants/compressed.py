"""Broken builds of scans that pass rows on compressed."""

from __future__ import annotations

from .broken_build import Mutant

SCANS = "property/test_compressed_scans.py"
BLOCKS = "unit/storefile/test_wide_blocks.py"
STORED = "unit/storefile/test_stored_block.py"
IN_PLACE = "unit/storefile/test_values_in_place.py"

COMPRESSED = [
    Mutant(
        "newer values are laid over compressed ones and not sent",
        "_Encoder.add",
        "changes, piece_count = column.changes, len(column.lines.slices)",
        "changes, piece_count = None, len(column.lines.slices)",
        SCANS,
    ),
    Mutant(
        "the changes of an earlier layer are lost",
        "CompressedColumn.changed",
        "(*self.layers, Changes(places, values))",
        "(Changes(places, values),)",
        SCANS,
    ),
    Mutant(
        "of two changes of a line that of the earlier layer is sent",
        "CompressedColumn.changes",
        "np.roll(changes(places), -1)",
        "changes(places)",
        SCANS,
    ),
    Mutant(
        "the changes of all layers count, also those that later ones replace",
        "CompressedRows._plain",
        "[column.changes for column in columns if isinstance(column, CompressedColumn)]",
        "[layer for column in columns if isinstance(column, CompressedColumn) for layer in column.layers]",
        "unit/scan/test_compressed_rows.py",
    ),
    Mutant(
        "absent cells are sent as values",
        "_Encoder.add",
        "if column.null_count else _NO_BITMAP",
        "if False else _NO_BITMAP",
        SCANS,
    ),
    Mutant(
        "a changed line that had no cell stays null",
        "CompressedColumn.present",
        "            present[layer.places] = True\n",
        "            present[layer.places] |= False\n",
        SCANS,
    ),
    Mutant(
        "chunks that are decompressed together are not compared with their checksums",
        "WideChunks.raws",
        "        self.check_several(numbers)\n",
        "",
        f"{STORED}::test_a_wrong_byte_of_one_of_several_columns_is_no_answer",
    ),
    Mutant(
        "values that are read in place are not compared with their checksums",
        "WideBlocks.read_chunks",
        "                    if not directory.are_as_written(chunks, stored):\n",
        "                    if False:\n",
        f"{IN_PLACE}::test_a_wrong_byte_of_values_in_place_is_no_answer",
    ),
    Mutant(
        "bytes between values that are read in place are taken for the next ones",
        "scattered_reads",
        "                if starts[chunk] > stop:\n",
        "                if starts[chunk] < stop:\n",
        f"{IN_PLACE}::test_values_of_other_columns_are_passed_over",
    ),
    Mutant(
        "a part of a block is read in place as if it were the whole",
        "StoredBlocks.values_into",
        " and stop - start == block.line_count:\n",
        ":\n",
        f"{IN_PLACE}::test_a_part_of_a_block_is_read_with_the_rest_of_it",
    ),
    Mutant(
        "values that are compressed are read in place",
        "_ChosenChunks.__init__",
        "self.are_plain = all(map(directory.is_plain, numbers))",
        "self.are_plain = True",
        f"{IN_PLACE}::test_compressed_values_of_later_blocks_are_decompressed",
    ),
    Mutant(
        "keys of a block take the place of a directory in the cache",
        "WideBlocks.__init__",
        "self._first_keys = _FIRST_KEYS + later",
        "self._first_keys = self._first_directory",
        f"{IN_PLACE}::test_keys_and_directories_are_cached_beside_each_other",
    ),
    Mutant(
        "the keys of a large file displace the blocks of point reads",
        "WideBlocks._read_keys",
        "self._keeps_keys = keys.bytes_held * len(self.index) <= file.cache_bytes_max // 8",
        "self._keeps_keys = True",
        f"{IN_PLACE}::test_keys_of_a_file_that_is_large_for_the_cache_are_not_kept",
    ),
    Mutant(
        "keys are cached before they are verified",
        "WideBlocks._read_keys",
        "            chunks.check_all()\n",
        "",
        f"{IN_PLACE}::test_keys_that_were_misread_once_are_not_cached",
    ),
    Mutant(
        "keys don't count a form that each block has for itself",
        "Directory.bytes_held",
        " + self.form.bytes_held",
        "",
        f"{IN_PLACE}::test_keys_count_a_form_that_each_block_has_for_itself",
    ),
    Mutant(
        "one read takes any number of chunks",
        "scattered_reads",
        "run = close[first : first + SCATTERED_CHUNKS_MAX]",
        "run = close[first:]",
        f"{IN_PLACE}::test_one_read_has_a_bounded_number_of_buffers",
    ),
    Mutant(
        "a column beside nulls counts as plain",
        "shares_of",
        " and len(column.numbers()) == 1",
        "",
        f"{IN_PLACE}::test_values_beside_nulls_are_not_read_in_place",
    ),
    Mutant(
        "a block that may be sent as it is stored is read in place",
        "shares_of",
        "value_bytes > _PLAIN_SHARE_MIN * wanted_bytes",
        "value_bytes > 0",
        f"{IN_PLACE}::test_values_beside_longer_rows_may_be_sent_as_they_are_stored",
    ),
    Mutant(
        "values of a block that was read whole are read again",
        "StoredWideBlock.is_unread",
        " and self._chunks is None",
        "",
        f"{IN_PLACE}::test_a_column_of_a_block_that_was_read_whole_comes_from_there",
    ),
    Mutant(
        "a block that is cached is read in place",
        "WideBlocks.keys_or_directories",
        " if block is None]",
        "]",
        f"{IN_PLACE}::test_blocks_that_are_cached_are_not_read",
    ),
    Mutant(
        "a column that is decompressed already is decompressed again with others",
        "decompress_together",
        """"plain" not in vars(column) and """,
        "",
        f"{STORED}::test_columns_are_decompressed_together_once",
    ),
    Mutant(
        "a part of a block that is decompressed begins with its block",
        "StoredWideBlock.chunks_into",
        "[start * width : stop * width]",
        "[: (stop - start) * width]",
        STORED,
    ),
    Mutant(
        "values that replace those of stored lines are not decompressed with them",
        "_filled",
        "for layer in column.layers]",
        "for layer in ()]",
        STORED,
    ),
    Mutant(
        "a value of another length is laid over values of one length",
        "CompressedColumn.width",
        "widths.update([_width(layer.values) for layer in self.layers])",
        "widths.update(())",
        STORED,
    ),
    Mutant(
        "blocks with other columns are taken for alike",
        "StoredWideBlock.layout",
        "id(self._form), id(self.reader.wanted)",
        "0, 0",
        STORED,
    ),
    Mutant(
        "a piece begins with its block",
        "_Encoder._add_slice",
        "block.line_count, start, stop - start, width",
        "block.line_count, 0, stop - start, width",
        SCANS,
    ),
    Mutant(
        "a chunk that is passed on compressed is not compared with its checksum",
        "WideChunks.stored",
        "        self.check(number)\n",
        "",
        f"{BLOCKS}::test_a_wrong_byte_of_a_chunk_is_not_passed_on_compressed",
    ),
    Mutant(
        "a batch without keys resumes at its last row",
        "CompressedRows.row_after",
        'return block.last_row + b"\\x00"',
        "return block.last_row",
        SCANS,
    ),
]
