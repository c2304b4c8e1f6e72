"""Broken builds of scans that are read row by row: what one source hides of another, and where they end."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

SHORT = "unit/scan/test_short_scan.py"
OF_REGION = "unit/region/test_short_scans.py"
MODEL = "property/test_short_scans_against_model.py::test_rows_read_one_by_one_are_those_of_the_model"
REAL = "property/test_short_scans_against_model.py::test_rows_of_real_sources_are_those_of_the_model"
SOURCES = "property/test_short_scans_against_model.py::test_few_rows_of_a_source_are_those_of_its_other_reads"

SHORT_SCANS = [
    Mutant(
        "a line is answered although another source has cells of its row",
        "_Merge._row",
        "if len(of_row) == 1 and part.lines is not None:",
        "if part.lines is not None:",
        f"{SHORT}::test_a_newer_source_replaces_a_column_of_a_row",
    ),
    Mutant(
        "only the source with the most lines is read",
        "_Merge.first_rows",
        "if len(self._parts) == 1 and self",
        "if self._parts and self",
        f"{SHORT}::test_a_tombstone_of_another_source_hides_a_row_and_a_column",
    ),
    Mutant(
        "lines pass with a cell beyond the read point, row by row",
        "_Merge._are_seen",
        " or facts.write_number_max > self._read_point.write_number",
        "",
        f"{SHORT}::test_a_write_beyond_the_read_point_is_not_seen",
    ),
    Mutant(
        "lines pass with an expired cell, row by row",
        "_Merge._are_seen",
        "family.time_to_live_ms and facts",
        "False and facts",
        f"{SHORT}::test_an_expired_cell_is_not_seen",
    ),
    Mutant(
        "lines pass with a cell that an earlier limit has hidden",
        "_Merge._are_seen",
        "if family.past or ",
        "if ",
        f"{SHORT}::test_a_cell_that_an_earlier_time_to_live_has_hidden_does_not_come_back",
    ),
    Mutant(
        "cells are answered whether the read point sees them or not",
        "_Merge._row_of_cells",
        "in visible_cells(cells, self._read_point, family):",
        "in cells:",
        f"{SHORT}::test_a_tombstone_of_another_source_hides_a_row_and_a_column",
    ),
    Mutant(
        "of several versions the oldest is answered",
        "_Merge._row_of_cells",
        "                if qualifier != previous:\n                    previous = qualifier\n",
        "                if True:\n",
        f"{SHORT}::test_of_the_versions_of_a_column_the_newest_is_answered",
    ),
    Mutant(
        "cells of several sources are not put in order",
        "_Merge._row_of_cells",
        "cells = sorted([cell for some in gathered for cell in some])",
        "cells = [cell for some in gathered for cell in some]",
        MODEL,
    ),
    Mutant(
        "rows that not all sources have been asked for are answered",
        "_Merge.add",
        "self._frontier = self.stop = few.frontier",
        "self._frontier = few.frontier",
        f"{SHORT}::test_rows_behind_what_one_source_has_given_are_not_answered_yet",
    ),
    Mutant(
        "rows beyond the limit are answered",
        "_Merge.first_rows",
        "if len(in_order) > rows_max:",
        "if False:",
        f"{SHORT}::test_no_more_rows_are_answered_than_wanted_and_the_frontier_is_the_next_one",
    ),
    Mutant(
        "a row without a visible cell counts as a row",
        "_Merge.first_rows",
        "[each for each in found if each.values]",
        "found",
        MODEL,
    ),
    Mutant(
        "the rows of the second range are lost",
        "ShortScan.answers",
        "                del self.rows_at[0]\n",
        "                self.rows_at.clear()\n",
        MODEL,
    ),
    Mutant(
        "the windows begin again where the rows began",
        "Scan._short_answers",
        "            self._rows_at, self._rows_left = short.rows_at, short.rows_left\n",
        "            self._rows_left = short.rows_left\n",
        f"{SHORT}::test_a_source_that_cannot_give_few_rows_is_read_by_windows",
    ),
    Mutant(
        "a long scan is read row by row",
        "ShortScan.answers",
        " and self._reading() is not Reading.BULK",
        "",
        f"{SHORT}::test_a_scan_that_goes_on_is_read_by_windows",
    ),
    Mutant(
        "a scan of several versions is read row by row",
        "is_short",
        "plan.selection == EVERYTHING and ",
        "",
        f"{SHORT}::test_only_scans_that_need_no_more_are_read_row_by_row",
    ),
    Mutant(
        "a row that continues in the next block is cut",
        "CellRun.few_rows",
        "            if is_full and not continues:\n",
        "            if is_full:\n",
        SOURCES,
    ),
    Mutant(
        "rows of a block that ends before the range are all there are",
        "WideRun.few_rows",
        "index.first_rows[number + 1] if number + 1 < numbers.stop else None",
        "None",
        f"{OF_REGION}::test_rows_that_are_read_one_by_one_are_those_of_the_windows",
    ),
    Mutant(
        "rows with several lines are taken for several rows",
        "rows_of_lines",
        "if len(set(rows)) == len(rows):",
        "if True:",
        SOURCES,
    ),
    Mutant(
        "the last row of few is cut between its lines",
        "WideBlock.few_rows",
        "            rows += rows[-1:] * (after - last)\n            last = after\n",
        "",
        SOURCES,
    ),
    Mutant(
        "the last row of few in memory is cut between its lines",
        "LinesSegment.few_rows",
        "if self.has_versions and last < len(self._lines):",
        "if False:",
        SOURCES,
    ),
    Mutant(
        "a row of many lines in memory is one of few",
        "LinesSegment.few_rows",
        "> FEW_CELLS_MAX:",
        "> 1 << 60:",
        "unit/memstore/test_lines_segment.py::test_a_row_of_many_cells_is_none_of_few",
    ),
    Mutant(
        "few rows of a clipped file are those of the whole file",
        "ClippedRun.few_rows",
        "self._run.few_rows(*within, ",
        "self._run.few_rows(start, stop, ",
        SOURCES,
    ),
    Mutant(
        "few rows of a file wait for a disk on the loop",
        "WideRun.few_rows",
        "may_wait=reading is Reading.CACHED",
        "may_wait=True",
        f"{OF_REGION}::test_rows_that_are_read_one_by_one_come_from_the_cache",
    ),
    Mutant(
        "few rows of cells wait for a disk on the loop",
        "CellRun.few_rows",
        "may_wait=reading is Reading.CACHED",
        "may_wait=True",
        f"{OF_REGION}::test_rows_that_are_read_one_by_one_come_from_the_cache",
    ),
    Mutant(
        "the loop reads as many sources as there are",
        "ShortScan._read",
        "if reading is Reading.AT_ONCE and source_count > 1 and self._is_slice_over():",
        "if False:",
        f"{SHORT}::test_on_the_loop_no_source_is_read_after_the_slice",
    ),
    Mutant(
        "a client counts no newest rows",
        "ScanProgress._newest_rows",
        "self._returned(len(rows.rows), ",
        "self._returned(0, ",
        "unit/client/test_scans.py::test_newest_rows_count_towards_the_limit_and_a_scan_resumes_after_the_last_one",
        CLIENT,
    ),
    Mutant(
        "a client believes lengths that exceed the data",
        "read_newest_rows",
        " or sum(lengths) != len(data)",
        "",
        "unit/client/test_newest_rows.py::test_a_message_that_contradicts_itself_is_refused",
        CLIENT,
    ),
]
