"""Broken builds of snapshots: the versions that they protect, how they are made, and how they end."""

from __future__ import annotations

from .broken_build import Mutant

SNAPSHOTS = "unit/host/test_snapshots.py"
TIMESTAMPS = "unit/host/test_timestamps.py"
MANY_SNAPSHOTS = "property/test_snapshots.py"
SPLIT_POINTS = "property/test_split_points.py"

_PARTS = "        parts = [SnapshotPart.of(region) for region in regions]\n"
_UNREGISTERED = (
    _PARTS
    + "        for part in parts:\n"
    + "            part.release()\n"
    + "            part.region.close_read_point = part.region.reopen_read_point = lambda _: None\n"
)
_HELD = """\
            for part in parts:
                part.region.reopen_read_point(part.read_point)
            opened.scan_count += 1
        try:
            made_ms = opened.snapshot.made_ms
            rows_at = [RowsAt(part.rows, ReadPoint(part.read_point.write_number, made_ms)) for part in parts]
            yield parts[0].region, rows_at, opened.table
        finally:
            for part in parts:
                part.release()
"""
_NOT_HELD = """\
            opened.scan_count += 1
        try:
            made_ms = opened.snapshot.made_ms
            rows_at = [RowsAt(part.rows, ReadPoint(part.read_point.write_number, made_ms)) for part in parts]
            yield parts[0].region, rows_at, opened.table
        finally:
"""
_GATE = "                gates.enter_context(region.without_writes(deadline))\n"

SNAPSHOT_MUTANTS = [
    Mutant(
        "a snapshot is not registered",
        "Snapshots._register",
        _PARTS,
        _UNREGISTERED,
        f"{SNAPSHOTS}::test_a_snapshot_sees_its_moment_over_pruning_and_flushes",
    ),
    Mutant(
        "a snapshot is not registered, at random",
        "Snapshots._register",
        _PARTS,
        _UNREGISTERED,
        f"{MANY_SNAPSHOTS}::test_a_snapshot_answers_what_was_there_at_its_moment_whenever_it_is_read",
    ),
    Mutant(
        "a snapshot is made without the gates",
        "hold_writes",
        _GATE,
        "                region.region_id\n",
        f"{SNAPSHOTS}::test_it_waits_for_writes_that_are_under_way_and_keeps_new_ones_out",
    ),
    Mutant(
        "the gates are held one after the other",
        "hold_writes",
        _GATE,
        "                with region.without_writes(deadline):\n                    pass\n",
        f"{SNAPSHOTS}::test_no_write_begins_between_the_read_points_of_two_regions",
    ),
    Mutant(
        "an expired snapshot is served until the thread runs",
        "Snapshots._check_not_ended",
        "        if opened is not None and self._is_over(opened):\n            self._expire(opened)\n"
        "        self._ended",
        "        self._ended",
        f"{SNAPSHOTS}::test_a_snapshot_that_is_not_used_for_its_lease_ends",
    ),
    Mutant(
        "a snapshot expires under a scan",
        "Snapshots._is_over",
        "        return not opened.scan_count and opened.ends_at",
        "        return opened.ends_at",
        f"{SNAPSHOTS}::test_while_a_scan_reads_it_does_not_expire",
    ),
    Mutant(
        "the end of a scan does not renew",
        "Snapshots.reading",
        "                opened.scan_count -= 1\n                self._renew(opened)\n",
        "                opened.scan_count -= 1\n",
        f"{SNAPSHOTS}::test_while_a_scan_reads_it_does_not_expire",
    ),
    Mutant(
        "a snapshot that ended is made again",
        "Snapshots._claim",
        "        self._check_not_ended(snapshot_id)\n        known",
        "        self._ended = EndedSnapshots(9)\n        known",
        f"{SNAPSHOTS}::test_an_ended_snapshot_is_reported_as_ended_and_its_id_never_reused",
    ),
    Mutant(
        "an ended snapshot does not say when it ended",
        "EndedSnapshots.check",
        ", ended.reason, ended.ended_ms)",
        ", ended.reason)",
        f"{SNAPSHOTS}::test_a_snapshot_that_is_not_used_for_its_lease_ends",
    ),
    Mutant(
        "the end of a snapshot that is being made is lost",
        "Snapshots._register",
        "        self._check_not_ended(snapshot_id)  # It may have been ended in the meantime.\n",
        "",
        f"{SNAPSHOTS}::test_an_end_that_comes_while_it_is_made_holds",
    ),
    Mutant(
        "an id from before a restart is accepted",
        "RegionServer.make_snapshot",
        "        if incarnation_id and incarnation_id != self.incarnation_id:\n",
        "        if False:\n",
        f"{SNAPSHOTS}::test_an_id_that_was_chosen_before_a_restart_is_not_made",
    ),
    Mutant(
        "a scan of a snapshot does not hold its read point",
        "Snapshots.reading",
        _HELD,
        _NOT_HELD,
        f"{SNAPSHOTS}::test_a_scan_that_has_begun_goes_on_when_it_ends",
    ),
    Mutant(
        "a snapshot outlives its regions",
        "RegionChanges.remove",
        "                self.snapshots.end_those_of(entry.table.table_id, reason)\n",
        "",
        f"{SNAPSHOTS}::test_it_ends_with_its_table",
    ),
    Mutant(
        "the server's clock is set back with the machine's",
        "Timestamps._range",
        "        now_ms = max(self._clock.now_ms(), newest)\n",
        "        now_ms = self._clock.now_ms()\n",
        f"{TIMESTAMPS}::test_a_range_for_a_table_is_never_below_a_stamp_of_it",
    ),
    Mutant(
        "a stamp may lie in a range that was reserved before",
        "Stamps.pass_over",
        "                self.given_at = 0\n",
        "                self.given_at = self._clock.now_ms()\n",
        f"{TIMESTAMPS}::test_a_write_that_comes_after_a_range_is_later_than_it",
    ),
    Mutant(
        "a new region ignores reserved ranges of all tables",
        "RegionChanges.serve",
        "            self.timestamps.begin(region, replaced)\n",
        "",
        f"{TIMESTAMPS}::test_a_write_that_comes_after_a_range_is_later_than_it",
    ),
    Mutant(
        "a part leaves out rows before its split point",
        "parts",
        "                if start < cut:\n                    held.append((start, cut))\n",
        "",
        f"{SPLIT_POINTS}::test_parts_cover_exactly_the_ranges",
    ),
]
