"""Broken builds of reading: read points, visibility, and flushes under readers."""

from __future__ import annotations

from .broken_build import Mutant

DISK = "unit/host/test_disk_failures.py"
FAILURES = "unit/region/test_failures.py"
FLUSH = "unit/region/test_flush.py"
INTERLEAVINGS = "unit/region/test_interleavings.py"
MVCC = "unit/commit/test_mvcc.py"
SEGMENT = "unit/memstore/test_row_segment.py"
PIVOT = "unit/scan/test_pivot.py"
VISIBILITY = "unit/versions/test_visibility.py"
WRITES = "unit/region/test_write_path.py"

# The hand-written cases, judged by the plain machine and by its vector form.
PLAIN = f"{VISIBILITY}::test_the_state_machine_answers_as_written"
VECTORS = f"{VISIBILITY}::test_the_vectors_answer_as_written"

READING = [
    # ---- read points
    Mutant(
        "a reader does not register",
        "Mvcc.protected_read_points",
        "            registered = sorted({number for number, _ in self._readers}) if self._readers else []\n",
        "            registered: list[int] = []\n",
        f"{MVCC}::test_a_registered_read_point_is_protected",
    ),
    Mutant(
        "the view is taken before the read point",
        "ReadPath.get",
        "        read_point = self._mvcc.open_read_point()\n        try:\n            served = self._stores.served\n",
        "        served = self._stores.served\n        read_point = self._mvcc.open_read_point()\n        try:\n",
        f"{INTERLEAVINGS}::test_a_get_that_began_after_a_write_was_answered_sees_it_whatever_is_flushed_meanwhile",
    ),
    Mutant(
        "a read sees unpublished writes",
        "Mvcc.open_read_point",
        "            read_point = ReadPoint(self._read_point, self._clock.now_ms())\n",
        "            read_point = ReadPoint(self._last, self._clock.now_ms())\n",
        f"{WRITES}::test_an_unsynced_write_is_neither_answered_nor_read",
    ),
    Mutant(
        "a reader passes the gate",
        "ReadableRegion.get",
        "        return self._read_path.get(rows, selection, may_wait=may_wait, reached=reached)\n",
        "        with self._parts.gate.exclusive():\n"
        "            return self._read_path.get(rows, selection, may_wait=may_wait, reached=reached)\n",
        f"{INTERLEAVINGS}::test_a_reader_takes_no_lock_that_a_writer_may_hold",
    ),
    # ---- visibility, row rules
    Mutant(
        "a point read sees later writes",
        "visible_cells",
        "            or negated_write_number < oldest_seen\n",
        "",
        PLAIN,
    ),
    Mutant(
        "tombstones hide later puts",
        "live_versions",
        "    for _, _, at, kind, item in sorted(events):\n",
        "    for _, _, at, kind, item in sorted(events, key=lambda event: (not event[1], event)):\n",
        f"{WRITES}::test_a_put_under_an_older_timestamp_than_a_tombstone_is_seen",
    ),
    Mutant(
        "within one write the puts come before the tombstones",
        "_live",
        "            events = [(-cell[2], cell[3] == PUT, ",
        "            events = [(-cell[2], cell[3] != PUT, ",
        PLAIN,
    ),
    Mutant(
        "versions beyond the limit come back",
        "live_versions",
        "            if len(newest_first) > versions:\n",
        "            if False:\n",
        f"{WRITES}::test_a_version_beyond_the_limit_never_comes_back",
    ),
    Mutant(
        "both versions of one timestamp are visible",
        "_newest_versions",
        "        elif cell[1] == at or found == family.versions:\n",
        "        elif found == family.versions:\n",
        PLAIN,
    ),
    Mutant(
        "expired cells are visible",
        "_newest_versions",
        "        if at < expired_from or found <= family.min_versions:\n",
        "        if True:\n",
        PLAIN,
    ),
    # ---- visibility, vector twins
    Mutant(
        "a scan sees later writes",
        "_visible_among",
        "    seen = np.flatnonzero(cells.write_number <= read_point.write_number)\n",
        "    seen = np.flatnonzero(cells.write_number >= 0)\n",
        VECTORS,
    ),
    Mutant(
        "tombstones hide later puts from scans",
        "live_puts",
        "    live: Mask = puts & (cells.write_number >= _newest_column_tombstone(cells))\n",
        "    live: Mask = puts & (_newest_column_tombstone(cells) < 0)\n",
        VECTORS,
    ),
    Mutant(
        "versions beyond the limit come back to scans",
        "_columns_where_order_matters",
        "columns[counts > versions]",
        "columns[counts < 0]",
        VECTORS,
    ),
    Mutant(
        "scans see expired cells",
        "_newest_versions",
        "    return newest & alive\n",
        "    return newest\n",
        VECTORS,
    ),
    # ---- the row form
    Mutant(
        "the row form swaps columns",
        "_fill",
        "        columns[1 + place] = _spread_values(",
        "        columns[1 + code] = _spread_values(",
        f"{PIVOT}::test_columns_of_several_families_stand_on_one_line",
    ),
    Mutant(
        "the row form reads only the families of its columns",
        "Scan._window_answers",
        "    columns_read = _columns_read(selection)\n",
        "    columns_read = _columns_read(selection) or ({c.family: None for c in plan.row_form or ()} or None)\n",
        f"{PIVOT}::test_without_columns_every_row_is_a_line_also_one_of_another_family_alone",
    ),
    Mutant(
        "the row form moves values to rows without one",
        "_spread_values",
        "    np.cumsum(is_present, out=before[1:])\n",
        "    before[1:] = np.minimum(np.arange(line_count) + 1, len(values))\n",
        f"{PIVOT}::test_what_a_row_does_not_have_is_null_and_an_empty_value_is_not",
    ),
    Mutant(
        "the row form shows empty values for absent ones",
        "_binary",
        "    bitmap = None if is_present is None else packed_bits(is_present)\n",
        "    bitmap = None\n",
        f"{PIVOT}::test_what_a_row_does_not_have_is_null_and_an_empty_value_is_not",
    ),
    Mutant(
        "the row form shows any version",
        "_placed",
        "    if selected.families[index].versions_max > 1:\n",
        "    if False:\n",
        f"{PIVOT}::test_of_several_versions_the_newest_stands_on_the_line",
    ),
    Mutant(
        "the row form reverses keys and not their values",
        "_lines",
        "        return _take(selected.rows.keys, rows[::-1]), len(rows) - 1 - lines\n",
        "        return _take(selected.rows.keys, rows[::-1]), lines\n",
        f"{PIVOT}::test_reverse_turns_the_lines_around_and_nothing_else",
    ),
    Mutant(
        "qualifiers of equal lengths are taken for equal",
        "_repeats",
        "    return np.array_equal(data[start + period_bytes : stop], data[start : stop - period_bytes])\n",
        "    return True\n",
        "unit/arrow/test_by_qualifier.py::test_others_are_looked_at_each",
    ),
    # ---- flush
    Mutant(
        "flush does not take the gate",
        "Flusher.flush",
        "with self._gate.exclusive():\n",
        "with contextlib.nullcontext():\n",
        f"{INTERLEAVINGS}::test_a_flush_waits_for_the_write_that_is_between_begin_and_apply",
    ),
    Mutant(
        "flush does not wait for the read point",
        "Flusher._flush",
        "        self._mvcc.wait_until_published(sealed.write_number, self._log.waits_for_space)\n",
        "",
        f"{INTERLEAVINGS}::test_a_flush_commits_only_what_is_published",
    ),
    Mutant(
        "flush forgets the existing files",
        "LiveFiles._edited",
        "            store_files[number] = (file.info, *store_files.get(number, ()))\n",
        "            store_files[number] = (file.info,)\n",
        f"{FLUSH}::test_files_of_several_flushes_are_there_after_a_restart",
    ),
    Mutant(
        "segments are dropped before their file is visible",
        "LiveFiles._publish.exchange",
        "                store.files = (file, *store.files)\n",
        "                pass\n",
        f"{FLUSH}::test_a_flush_makes_one_store_file_a_family_and_empties_the_memstore",
    ),
    Mutant(
        "the log forgets flushed records before the commit",
        "Flusher._flush",
        "        self._live_files.apply_edit(\n",
        "        self._flushed(sealed.write_number)\n        self._live_files.apply_edit(\n",
        f"{FLUSH}::test_after_a_flush_without_space_a_crash_loses_nothing[manifest-*]",
    ),
    Mutant(
        "a flush that does not commit drops its segments",
        "LiveFiles._apply",
        "            self._commit(self._edited(self.manifest if manifest is None else manifest, edit))\n"
        "            dropped, self._dropped = self._dropped, []\n"
        "            self._publish(edit)\n",
        "            dropped = []\n            try:\n"
        "                self._commit(self._edited(self.manifest if manifest is None else manifest, edit))\n"
        "            finally:\n"
        "                self._publish(replace(edit, added={}))\n",
        f"{FLUSH}::test_a_flush_without_space_loses_nothing_and_the_next_one_takes_all[manifest-*]",
    ),
    Mutant(
        "a lack of memory in a flush ends the server",
        "Flusher._flush",
        "            with memory_error_refused(self._folder):\n                written",
        "            if True:\n                written",
        f"{FAILURES}::test_a_flush_thread_without_memory_logs_it_once_and_flushes_when_there_is_some",
    ),
    Mutant(
        "a sync that lacked memory is taken for a call that may be repeated",
        "_read_back_and_sync",
        "        files.fsync(descriptor)\n",
        "        with lack_of_memory_refused(path):\n            files.fsync(descriptor)\n",
        f"{DISK}::test_a_failed_sync_of_a_flush_ends_the_server",
    ),
    Mutant(
        "an edit that lacked memory after its commit is taken for one that was not made",
        "LiveFiles.apply_edit",
        "        with memory_error_final(self.folder):\n",
        "        if True:\n",
        "unit/region/test_live_files.py::test_after_a_lack_of_memory_behind_the_commit_the_files_stay",
    ),
    Mutant(
        "a region that was only opened is written again",
        "Flusher.begin_serving",
        "            self._clean_up_to = last_unused\n",
        "            pass\n",
        f"{FLUSH}::test_a_region_that_was_only_opened_is_not_written_again",
    ),
    Mutant(
        "replayed changes are taken for flushed",
        "Flusher.begin_serving",
        "        if self._clean_up_to == first_unused - 1:\n",
        "        if True:\n",
        f"{FLUSH}::test_a_region_that_was_only_opened_is_not_written_again",
    ),
    Mutant(
        "each flush that fails seals another segment",
        "Flusher._seal",
        "            self._sealed_up_to = write_number\n",
        "            pass\n",
        f"{FLUSH}::test_flushes_that_fail_again_and_again_leave_one_sealed_segment[*.store]",
    ),
    Mutant(
        "later segments are dropped with those of a failed flush",
        "Flusher._unflushed",
        " if s.write_number_max <= write_number)",
        ")",
        f"{FLUSH}::test_what_a_failed_flush_sealed_is_flushed_even_if_the_newer_cells_fail",
    ),
    Mutant(
        "a failed sync of a flush does not end the server",
        "RegionServer.flush_region",
        "        with self._failures.are_final():\n            result = region.flush()\n",
        "        result = region.flush()\n",
        f"{DISK}::test_a_failed_sync_of_a_flush_ends_the_server",
    ),
    Mutant(
        "regions that pin the log are not flushed",
        "FlushThreads._due",
        "            or region.region_id in pinning\n",
        "",
        "unit/host/test_flushing.py::test_without_pressure_only_those_over_a_bound_of_their_own_are_due_the_largest_first",
    ),
    Mutant(
        "of a row that runs share only the later runs' cells are sorted",
        "_order_of_rows",
        "    is_shared[:-1] |= is_again[1:]\n",
        "",
        "unit/arrow/test_merge.py::test_a_row_in_common_is_noticed_and_its_cells_are_sorted",
    ),
    Mutant(
        "columns of shared rows are sorted by where they first occur",
        "_order_in_rows",
        "ranks[_indices(qualifiers.indices)]",
        "_indices(qualifiers.indices)",
        "unit/arrow/test_merge.py::test_some_rows_in_common_are_sorted_among_others",
    ),
    Mutant(
        "cells of shared rows that are equally old keep no order",
        "_order_in_rows",
        "(-integers(write_number), -integers(timestamp), columns)",
        "(-integers(timestamp), columns)",
        "unit/arrow/test_merge.py::test_some_rows_in_common_are_sorted_among_others",
    ),
    Mutant(
        "rows are said to be in one run each, although runs share some",
        "_order_of_rows",
        "    return places, True\n",
        "    return places, False\n",
        "unit/arrow/test_merge.py::test_a_row_in_common_is_noticed_and_its_cells_are_sorted",
    ),
]
