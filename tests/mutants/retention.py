"""Broken builds of retention: what flush, compaction and pruning may drop."""

from __future__ import annotations

from .broken_build import Mutant

FLUSH = "unit/region/test_flush.py"
SEGMENT = "unit/memstore/test_row_segment.py"
VISIBILITY = "unit/versions/test_visibility.py"
RETENTION = "property/test_retention.py"
HISTORIES = f"{RETENTION}::test_no_answer_depends_on_flushes_compactions_and_pruning[32]"
FEW_SPANS = f"{RETENTION}::test_no_answer_depends_on_flushes_compactions_and_pruning[2]"
TWINS = f"{RETENTION}::test_vectors_and_plain_rules_retain_the_same"
PARTS = f"{RETENTION}::test_rows_in_parts_and_lines_retain_the_same"

RETENTION_MUTANTS = [
    # ---- surplus versions
    Mutant(
        "pruning drops what a registered reader sees",
        "_needed",
        "                if -cell[2] <= first:\n",
        "                if True:\n",
        f"{SEGMENT}::test_what_a_registered_read_point_needs_is_not_pruned",
    ),
    Mutant(
        "pruning counts puts before a tombstone",
        "_without_surplus",
        "        newer = [cell for cell in column_cells if -cell[2] > newest_tombstone]\n",
        "        newer = [cell for cell in column_cells if cell[3] == PUT]\n",
        f"{SEGMENT}::test_of_what_came_before_a_tombstone_only_what_it_hides_with_all_below_is_pruned",
    ),
    Mutant(
        "flush drops what a registered reader sees",
        "_needed",
        "        read_by_all = puts.write_number <= first\n",
        "        read_by_all = puts.write_number >= 0\n",
        f"{FLUSH}::test_an_open_scan_continues_at_its_read_point_during_a_flush",
    ),
    Mutant(
        "flush protects only the current read point",
        "Flusher._flush",
        "        spans = self._mvcc.protected_read_points()\n",
        "        spans = self._mvcc.protected_read_points()[-1:]\n",
        f"{FLUSH}::test_an_open_scan_continues_at_its_read_point_during_a_flush",
    ),
    Mutant(
        "flush keeps versions between two read points",
        "_needed",
        "        needed |= ~outlived & (puts.write_number <= last)\n",
        "        needed |= ~outlived\n",
        "unit/host/test_snapshots.py::test_a_counter_stays_short_while_a_snapshot_is_held",
    ),
    Mutant(
        "flush counts puts before a tombstone",
        "_not_surplus",
        "    is_newer = cells.write_number > _newest_tombstone(cells)\n",
        "    is_newer = cells.kind == PUT\n",
        f"{VISIBILITY}::test_the_answer_does_not_depend_on_what_was_flushed",
    ),
    Mutant(
        "flush drops tombstones",
        "_retained_of_rows",
        "    return (run.filter(rule(SortedCells.of(run.keys))),)\n",
        "    cells = SortedCells.of(run.keys)\n    return (run.filter(rule(cells) & (cells.kind == 0)),)\n",
        f"{FLUSH}::test_answers_never_depend_on_what_has_been_flushed",
    ),
    # ---- expired cells
    Mutant(
        "versions that min_versions protects are dropped",
        "expired_through",
        "    if not family.time_to_live_ms or family.min_versions:\n",
        "    if not family.time_to_live_ms:\n",
        HISTORIES,
    ),
    Mutant(
        "a cell is dropped in the last millisecond of its time to live",
        "expired_through",
        "oldest_now_ms - family.time_to_live_ms",
        "oldest_now_ms - family.time_to_live_ms + 1",
        HISTORIES,
    ),
    Mutant(
        "cells expire for a reader of before",
        "Mvcc.oldest_now_ms",
        "[self._clock.now_ms(), *(now_ms for _, now_ms in self._readers)]",
        "[self._clock.now_ms()]",
        HISTORIES,
    ),
    Mutant(
        "a snapshot judges time to live by a moment before it protects cells",
        "Snapshots._register",
        "max(part.read_point.now_ms for part in parts)",
        "min(part.read_point.now_ms for part in parts)",
        "unit/host/test_snapshots.py::test_no_region_drops_what_expires_after_the_moment_of_the_snapshot",
    ),
    Mutant(
        "a cell of a line is dropped if the first one has expired",
        "Lines.later_than",
        "(of_column > timestamp)",
        "(self.timestamps[0] > timestamp)",
        "unit/scan/test_retained_tables.py::test_cells_of_lines_that_have_expired_are_dropped",
    ),
    Mutant(
        "expired cells of lines stay, and the store is compacted again and again because of them",
        "Lines.later_than",
        "            is_present(column) & (of_column > timestamp)\n",
        "            is_present(column) & ((self.timestamps > timestamp).any(axis=0))\n",
        "unit/region/test_compacting.py::test_a_store_whose_lines_expire_in_part_is_compacted_once_and_is_idle_then",
    ),
    Mutant(
        "expired tombstones are dropped before the cells that they hide",
        "retained",
        "        mask |= cells.kind != PUT\n",
        "        pass\n",
        TWINS,
    ),
    # ---- complete cells
    Mutant(
        "every flush drops tombstones as if no older file existed",
        "Flusher._write_all",
        "is_complete = not self._stores.of(family.number).files",
        "is_complete = True",
        f"{FLUSH}::test_a_flush_keeps_tombstones_only_if_older_files_may_have_what_they_hide",
    ),
    Mutant(
        "pruning drops tombstones as if no older cell existed",
        "RowSegment._prune",
        "Retention(spans, past=self._past)",
        "Retention(spans, is_complete=True)",
        f"{SEGMENT}::test_what_a_tombstone_hides_is_pruned_when_no_reader_of_before_is_left",
    ),
    Mutant(
        "compaction of some files drops tombstones",
        "Retention.settled_through",
        "        if not self.is_complete:\n",
        "        if False:\n",
        HISTORIES,
    ),
    Mutant(
        "compaction of some files drops tombstones, by vectors",
        "_of_unexpired",
        "    through = retention.settled_through\n",
        "    through = protected[0][0]\n",
        TWINS,
    ),
    Mutant(
        "cells are settled at the current read point",
        "Retention.settled_through",
        "self.protected[0][0]",
        "self.protected[-1][0]",
        HISTORIES,
    ),
    Mutant(
        "cells are settled at the current read point, by vectors",
        "_of_unexpired",
        "through = retention.settled_through",
        "through = protected[-1][0]",
        TWINS,
    ),
    Mutant(
        "settling keeps one version too many",
        "_settled",
        "replace(family.as_of(read_point), time_to_live_ms=0)",
        "replace(family.as_of(read_point), time_to_live_ms=0, versions=family.versions + 1)",
        HISTORIES,
    ),
    Mutant(
        "settling drops later cells, by vectors",
        "_of_unexpired",
        "(cells.write_number > through) | live_at",
        "live_at",
        TWINS,
    ),
    # ---- hidden cells
    Mutant(
        "a tombstone hides cells across a read point",
        "_not_hidden_by",
        "number < greatest.get(gap, 0)",
        "number < max(greatest.values(), default=0)",
        HISTORIES,
    ),
    Mutant(
        "a tombstone hides cells across a read point, by vectors",
        "_hidden",
        "        before = last\n",
        "",
        TWINS,
    ),
    Mutant(
        "a tombstone hides cells inside a span of read points",
        "_not_hidden_by",
        "        if number <= protected[gap][0]:",
        "        if True:",
        FEW_SPANS,
    ),
    Mutant(
        "a tombstone hides cells inside a span of read points, by vectors",
        "_hidden",
        "(cells.write_number <= first)",
        "(cells.write_number <= last)",
        TWINS,
    ),
    Mutant(
        "a tombstone of one version hides all below",
        "_not_hidden_by",
        "            if cell[3] >= DELETE_COLUMN:\n",
        "            if cell[3] != PUT:\n",
        HISTORIES,
    ),
    Mutant(
        "a tombstone hides what is written after it",
        "_not_hidden_by",
        "            if number < greatest.get(gap, 0):\n",
        "            if gap in greatest and number != greatest[gap]:\n",
        HISTORIES,
    ),
    Mutant(
        "a tombstone of a column replaces one of the family",
        "covered",
        "mask: Mask = ~of_family & (cells",
        "mask: Mask = (cells",
        TWINS,
    ),
    # ---- rows in parts
    Mutant(
        "family tombstones count only in their own part",
        "judged_with_family_tombstones",
        "rule(cells.at(~of_family).after(tombstones))[len(tombstones) :]",
        "rule(cells.at(~of_family))",
        PARTS,
    ),
    Mutant(
        "the family tombstones of a row in parts are lost",
        "judged_with_family_tombstones",
        "            mask[of_family] = rule(cells.at(of_family))\n",
        "            mask[of_family] = False\n",
        PARTS,
    ),
]
