"""Broken builds of the compactions of a region, and of the exchange of its files."""

from __future__ import annotations

from .broken_build import Mutant

COMPACTING = "unit/region/test_compacting.py"
HELD_SCANS = "property/test_held_scans.py::test_a_held_scan_returns_one_moment_and_so_do_short_ones"
LIVE_FILES = "unit/region/test_live_files.py"

COMPACTING_MUTANTS = [
    Mutant(
        "a minor compaction drops tombstones that hide cells of older files",
        "RegionCompactor._written",
        "not any(_overlap(file, other) for file in files for other in older)",
        "True",
        f"{COMPACTING}::test_a_minor_compaction_keeps_the_tombstones_of_older_files",
    ),
    Mutant(
        "a compaction ignores protected read points",
        "RegionCompactor._written",
        "        protected, oldest_now_ms = self._mvcc.protected_read_points(), self._mvcc.oldest_now_ms()\n",
        "        protected, oldest_now_ms = self._mvcc.protected_read_points()[-1:], self._mvcc.oldest_now_ms()\n",
        f"{COMPACTING}::test_a_scan_reads_its_moment_to_the_end_though_its_files_are_replaced",
    ),
    Mutant(
        "a compaction drops what has expired since its readers began",
        "RegionCompactor._written",
        "self._mvcc.oldest_now_ms()",
        "self._clock.now_ms()",
        f"{HELD_SCANS}[1]",
    ),
    Mutant(
        "a compaction does not count the cells that it writes",
        "RegionCompactor._compact",
        "cells_out=sum(file.info.cell_count for file in written)",
        "cells_out=0",
        f"{COMPACTING}::test_a_compaction_gains_nothing_only_if_it_writes_all_that_it_reads",
    ),
    Mutant(
        "a replaced file is removed under its reader",
        "LiveFiles._apply",
        "                    file.remove_when_unused()\n",
        "                    self._files.remove_if_there(file.path)\n",
        f"{LIVE_FILES}::test_a_replaced_file_is_removed_after_its_last_reader",
    ),
    Mutant(
        "an input that stays is removed",
        "LiveFiles._apply",
        "                if file.path not in kept:\n",
        "                if True:\n",
        f"{LIVE_FILES}::test_an_input_may_stay",
    ),
    Mutant(
        "readers see new files before the manifest names them",
        "LiveFiles._apply",
        "            self._commit(self._edited(self.manifest if manifest is None else manifest, edit))\n"
        "            dropped, self._dropped = self._dropped, []\n"
        "            self._publish(edit)\n",
        "            dropped = []\n"
        "            edited = self._edited(self.manifest if manifest is None else manifest, edit)\n"
        "            self._publish(edit)\n"
        "            self._commit(edited)\n",
        f"{LIVE_FILES}::test_without_space_for_the_manifest_the_outputs_are_removed_and_the_inputs_stay",
    ),
    Mutant(
        "a flush undoes a compaction that ended meanwhile",
        "LiveFiles._edited",
        "        live = self.manifest.store_files\n",
        "        live = manifest.store_files\n",
        f"{LIVE_FILES}::test_an_edit_keeps_what_another_one_changed_meanwhile",
    ),
    Mutant(
        "a file that a flush publishes while a compaction looks for its inputs is removed with them",
        "_inputs_and_older",
        "    return files[place:stop], files[stop:]\n",
        "    return store.files[place:stop], store.files[stop:]\n",
        f"{COMPACTING}::test_a_file_that_a_flush_publishes_meanwhile_is_not_taken_for_an_input",
    ),
    Mutant(
        "files that are gone are compacted",
        "_inputs_and_older",
        "tuple(of_store[place:stop]) != tuple(numbers)",
        "place < 0",
        f"{COMPACTING}::test_files_that_are_gone_are_not_compacted",
    ),
    Mutant(
        "a cancelled compaction leaves its output",
        "RegionCompactor._compact",
        "            for file in written:\n                self._files.remove_if_there(file.path)\n",
        "",
        f"{COMPACTING}::test_a_compaction_that_is_cancelled_at_its_end_leaves_nothing_behind",
    ),
    Mutant(
        "a compaction fills the disk before it is refused",
        "RegionCompactor._compact",
        "        self._check_space(progress.bytes_total)\n",
        "",
        f"{COMPACTING}::test_a_compaction_that_may_not_fit_the_disk_is_refused_before_it_starts",
    ),
    Mutant(
        "lines that are not published hide published ones in a compaction",
        "_lines_of",
        " and retention.protected[0][0] >= newest",
        "",
        "unit/scan/test_retained_tables.py::"
        "test_lines_of_one_row_become_one_line_of_the_newest_cells_where_nothing_else_is_read[not published]",
    ),
    Mutant(
        "tombstones that have expired are dropped unread though older files have what they hide",
        "_facts_of",
        "        is_expired = not any(_overlap(file, other) for other in older)\n",
        "        is_expired = True\n",
        f"{COMPACTING}::test_a_file_of_expired_tombstones_stays_while_older_files_have_rows_of_it",
    ),
]
