"""Broken builds of import, export and typed bulk writes that would lose rows, cells or files silently."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

_CSV = "unit/cli/transfer/test_csv_files.py"
_BATCHES = "unit/cli/transfer/test_batches.py"
_TARGETS = "unit/cli/transfer/test_targets.py"
_IMPORTING = "unit/cli/transfer/test_importing.py"
_WHOLE = "unit/cli/transfer/test_cells.py"
_STOPPED = f"{_TARGETS}::test_a_signal_leaves_nothing_and_ends_the_process"
_LONG_ROWS = f"{_CSV}::test_rows_longer_than_a_block_come_once_and_in_order[0]"
_CELLS = f"{_WHOLE}::test_cells_keep_their_timestamps_and_versions"
_ALL = f"{_WHOLE}::test_all_tables_come_back_with_their_settings"
_COUNT = "unit/client/test_bulk.py::test_the_rows_that_are_written_are_counted_up_to_the_first_gap"


def _mutant(name: str, where: str, passage: str, replacement: str, caught_by: str) -> Mutant:
    return Mutant(name, where, passage, replacement, caught_by, CLIENT)


TRANSFER_MUTANTS = [
    _mutant(
        "a quote that is not closed at the end of a file of CSV is taken for closed",
        "_parsed",
        "        if not last_line.is_reported:\n",
        "        if False:\n",
        f"{_CSV}::test_a_quote_that_is_not_closed_is_no_text",
    ),
    _mutant(
        "rows of a mapping that names the columns of cells are written as cells",
        "bulk_pieces",
        "(or_cells and not _names_cell_columns(mapping))",
        "or_cells",
        "unit/client/test_bulk.py::test_cells_beside_rows_are_told_by_their_columns_unless_the_mapping_has_these",
    ),
    _mutant(
        "cells of a table that keeps a mapping are taken for rows",
        "bulk_pieces",
        "(takes_cells and _has_cell_columns(piece.schema.names))",
        "False",
        "unit/client/test_bulk.py::test_cells_beside_rows_are_told_by_their_columns_unless_the_mapping_has_these",
    ),
    _mutant(
        "a file that is parsed again with larger blocks yields its first rows twice",
        "_in_growing_blocks",
        "max(0, delivered - parsed)",
        "0",
        _LONG_ROWS,
    ),
    _mutant(
        "a file that is parsed again with larger blocks loses the batch in which the delivered rows end",
        "_in_growing_blocks",
        "batch.slice(min(batch.num_rows, max(0, delivered - parsed)))",
        "batch.slice(batch.num_rows if delivered > parsed else 0)",
        f"{_CSV}::test_a_batch_of_delivered_rows_and_others_gives_the_others[14]",
    ),
    _mutant(
        "a row that is longer than two blocks ends the file",
        "_in_growing_blocks",
        "                raise\n",
        "                raise\n            return\n",
        _LONG_ROWS,
    ),
    _mutant(
        "joined batches lose the last ones",
        "joined",
        "    if held:\n        yield from _combined(held)\n",
        "",
        f"{_BATCHES}::test_joined_batches_have_the_same_rows[40]",
    ),
    _mutant(
        "a batch in which the rows to skip end is left out whole",
        "without_first",
        "        if skipped < read.batch.num_rows:\n",
        "        if skipped == 0:\n",
        f"{_BATCHES}::test_the_first_rows_are_left_out[1]",
    ),
    _mutant(
        "rows behind a batch that is to be repeated are reported as written",
        "BulkSend.written_count",
        "        return min([self._outcome.first_not_written(self._next_row), *unfinished])\n",
        "        return self._outcome.row_count\n",
        _COUNT,
    ),
    _mutant(
        "rows that a server refused are reported as written",
        "BulkOutcome.first_not_written",
        "*(rows.start for rows, _ in self._failed), ",
        "",
        _COUNT,
    ),
    _mutant(
        "an interrupted import reports the rows that it has read",
        "FileRows.written_to",
        "        self._written = self.skipped + count\n",
        "        self._written = self._skipped + self.count\n",
        f"{_IMPORTING}::test_an_interrupt_says_how_many_rows_were_written_and_how_to_go_on[0]",
    ),
    _mutant(
        "the rows that an import has left out are not counted when it is interrupted",
        "FileRows.written_to",
        "        self._written = self.skipped + count\n",
        "        self._written = count\n",
        f"{_IMPORTING}::test_an_interrupt_says_how_many_rows_were_written_and_how_to_go_on[1]",
    ),
    _mutant(
        "a failed export leaves a partial file",
        "new_file",
        "            partial.unlink(missing_ok=True)\n",
        "            pass\n",
        f"{_TARGETS}::test_a_file_that_is_not_complete_leaves_what_was_there[None-error0]",
    ),
    _mutant(
        "a file that appears during an export is replaced",
        "new_file",
        "            _rename(partial, file, overwrite=overwrite)\n",
        "            partial.replace(file)\n",
        f"{_TARGETS}::test_a_file_that_appears_meanwhile_is_kept[True]",
    ),
    _mutant(
        "an export is written into the file that it replaces",
        "new_file",
        "    partial = _partial(file)\n",
        "    partial = file\n",
        f"{_TARGETS}::test_a_file_that_is_not_complete_leaves_what_was_there[old-error0]",
    ),
    _mutant(
        "SIGTERM ends an export at once",
        "ended_by_signals",
        "if signal.getsignal(number) is signal.SIG_DFL]",
        "if False]",
        f"{_STOPPED}[file-SIGTERM]",
    ),
    _mutant(
        "a failed export of all tables leaves a part of its folder",
        "new_folder",
        "            shutil.rmtree(partial, ignore_errors=True)\n",
        "            pass\n",
        f"{_TARGETS}::test_a_folder_appears_when_it_is_complete",
    ),
    _mutant(
        "an export of cells has one version of each",
        "export_rows",
        '        options["versions"] = versions\n',
        '        options["versions"] = 1\n',
        f"{_CELLS}[csv]",
    ),
    _mutant(
        "an export of all tables has one version of each cell",
        "_export_one",
        "scan(versions=VERSIONS_ALL, snapshot=snapshot)",
        "scan(snapshot=snapshot)",
        _ALL,
    ),
    _mutant(
        "an import of cells gives them the server's clock",
        "FileRows.__iter__",
        "            yield read.batch\n",
        '            yield read.batch.drop_columns(["timestamp"]) if self._names is None else read.batch\n',
        f"{_CELLS}[jsonl]",
    ),
    _mutant(
        "the tables of a folder lose their properties",
        "_create",
        "properties=table.properties",
        "properties={}",
        _ALL,
    ),
    _mutant(
        "tables whose names differ in case share a file",
        "export_all",
        'record["file"].lower()',
        'record["file"]',
        _ALL,
    ),
    _mutant(
        "a null value in a Parquet file of cells deletes a column",
        "parquet_content",
        "checks_nulls=wanted is CELL_COLUMNS",
        "checks_nulls=False",
        f"{_WHOLE}::test_a_null_value_in_a_parquet_file_of_cells_is_refused",
    ),
    _mutant(
        "a compressed file of JSON lines that is cut off ends there",
        "_reads",
        '        raise ArgumentError(f"{source.name} can\'t be read: {error}") from error\n',
        "        return\n",
        "unit/cli/transfer/test_json_lines.py::test_a_compressed_file_that_is_cut_off_is_an_error[30-rows.jsonl.gz]",
    ),
    _mutant(
        "a misspelled column of the data is lost",
        "_partial_mapping",
        "if name not in known and not _UNNAMED_INDEX.fullmatch(name):",
        "if False:",
        "unit/client/awaited/test_typed_tables.py::test_a_column_of_the_data_that_the_mapping_does_not_name_is_refused",
    ),
    _mutant(
        "a misspelled column of JSON lines is lost",
        "_batch",
        "    if not columns.ignores_others:\n",
        "    if False:\n",
        "unit/cli/transfer/test_json_lines.py::test_a_field_that_is_no_column_is_refused_with_the_column_that_was_meant",
    ),
    _mutant(
        "a misspelled column of a CSV file is lost",
        "columns_among",
        "    if wanted.is_partial and not wanted.ignores_others:\n",
        "    if False:\n",
        "unit/cli/transfer/test_csv_files.py::test_a_column_that_the_mapping_does_not_name_is_refused_if_others_may_lack",
    ),
]
