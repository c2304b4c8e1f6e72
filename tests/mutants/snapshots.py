"""Broken builds of snapshots: the versions that they protect, how they are made, and how they end."""

from __future__ import annotations

from .broken_build import Mutant

SNAPSHOTS = "unit/host/test_snapshots.py"
TIMESTAMPS = "unit/host/test_timestamps.py"
MANY_SNAPSHOTS = "property/test_snapshots.py"
SPLIT_POINTS = "property/test_split_points.py"

_READ_POINTS = "        read_points = [region.open_read_point() for region in regions]\n"
_YIELD = "            yield region, ReadPoint(read_point.write_number, opened.snapshot.made_ms), opened.table\n"
_UNREGISTERED = (
    _READ_POINTS
    + "        for region, at in zip(regions, read_points, strict=True):\n"
    + "            type(region).close_read_point(region, at)\n"
    + "            region.close_read_point = region.reopen_read_point = lambda _: None\n"
)

SNAPSHOT_MUTANTS = [
    Mutant(
        "a snapshot is not registered",
        "Snapshots._register",
        _READ_POINTS,
        _UNREGISTERED,
        f"{SNAPSHOTS}::test_a_snapshot_sees_its_moment_over_pruning_and_flushes",
    ),
    Mutant(
        "a snapshot is not registered, at random",
        "Snapshots._register",
        _READ_POINTS,
        _UNREGISTERED,
        f"{MANY_SNAPSHOTS}::test_a_snapshot_answers_what_was_there_at_its_moment_whenever_it_is_read",
    ),
    Mutant(
        "a snapshot is made without the gates",
        "Snapshots.make",
        "                    gates.enter_context(region.without_writes(deadline))\n",
        "                    region.region_id\n",
        f"{SNAPSHOTS}::test_it_waits_for_writes_that_are_under_way_and_keeps_new_ones_out",
    ),
    Mutant(
        "the gates are held one after the other",
        "Snapshots.make",
        "                    gates.enter_context(region.without_writes(deadline))\n",
        "                    with region.without_writes(deadline):\n                        pass\n",
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
        "            region.reopen_read_point(read_point)\n            opened.scan_count += 1\n        try:\n"
        + _YIELD
        + "        finally:\n            region.close_read_point(read_point)\n",
        "            opened.scan_count += 1\n        try:\n" + _YIELD + "        finally:\n",
        f"{SNAPSHOTS}::test_a_scan_that_has_begun_goes_on_when_it_ends",
    ),
    Mutant(
        "a snapshot outlives its regions",
        "RegionServer._remove_regions",
        "                self.snapshots.end_those_of((region.region_id,), reason)\n",
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
        "RegionServer._serve",
        "            self._timestamps.begin(region, replaced)\n",
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
