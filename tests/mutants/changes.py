"""Broken builds of change feeds: changes that are dropped, that come twice, or that a reader passes over."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

HOST = "unit/host/test_changes.py"
FEED = "property/test_change_feed.py::test_nothing_is_lost_and_nothing_comes_twice[0]"
RETENTION = "property/test_retention.py"
HORIZON = f"{RETENTION}::test_beyond_the_horizon_of_a_change_feed_every_cell_stays_and_no_answer_changes"
TWINS = f"{RETENTION}::test_vectors_and_plain_rules_retain_the_same"
PROGRESS = "unit/client/test_change_progress.py"

CHANGES_MUTANTS = [
    # ---- what is retained
    Mutant(
        "a compaction drops what the feed retains",
        "RegionCompactor._written",
        "            retained_after=self._mvcc.retained_after,\n",
        "",
        f"{HOST}::test_puts_stay_that_the_state_at_the_horizon_pushes_out_at_once",
    ),
    Mutant(
        "read points beyond the horizon are not protected",
        "Mvcc.protected_read_points",
        "min(self._read_point, self._retained_after)",
        "self._read_point",
        HORIZON,
    ),
    Mutant(
        "a flush drops what the feed retains",
        "Flusher._write_all",
        "                    retained_after=self._mvcc.retained_after,\n",
        "",
        f"{HOST}::test_expired_cells_stay",
    ),
    Mutant(
        "rows in memory are pruned under a feed",
        "Mvcc.read_points_for_pruning",
        "self.protected_read_points() if self._retained_after == NEWEST else from_then_on(0)",
        "self.protected_read_points()",
        f"{HOST}::test_puts_stay_that_the_state_at_the_horizon_pushes_out_at_once",
    ),
    Mutant(
        "the replay prunes what the feed retains",
        "Replay._protected_read_points",
        "self._last if self._mvcc.retained_after == NEWEST else 0",
        "self._last",
        f"{HOST}::test_a_row_that_is_written_often_is_not_pruned",
    ),
    Mutant(
        "expired cells are dropped from the feed",
        "_unexpired",
        "        or -cell[2] > retention.retained_after\n",
        "",
        TWINS,
    ),
    Mutant(
        "expired cells of lines are dropped from the feed",
        "_lines_of",
        "    if retention.expired_through >= 0 and any(",
        "    if False and any(",
        "unit/scan/test_retained_tables.py::test_cells_of_lines_that_a_change_feed_retains_stay_although_they_have_expired",
    ),
    Mutant(
        "puts that are pushed out at once are dropped from the feed, by vectors",
        "_needed",
        "    needed: Mask = puts.write_number > retention.retained_after\n",
        "    needed: Mask = np.zeros(len(puts), np.bool_)\n",
        TWINS,
    ),
    Mutant(
        "files of expired cells are dropped under a feed",
        "RegionCompactor.facts",
        "expired = through if file.info.write_number_max <= retained_after else -1",
        "expired = through",
        f"{HOST}::test_expired_cells_stay",
    ),
    # ---- the horizon
    Mutant(
        "the horizon is not in the manifest of what was dropped",
        "LiveFiles._edited",
        "            changes=self._changes(),\n",
        "            changes=manifest.changes or self._changes(),\n",
        f"{HOST}::test_the_horizon_survives_a_restart_with_what_was_dropped",
    ),
    Mutant(
        "a reader from before the horizon gets what is left",
        "check_complete",
        "    if span.since < horizon:\n",
        "    if False:\n",
        f"{HOST}::test_what_is_older_than_the_hours_goes_and_the_offset_expires",
    ),
    Mutant(
        "the horizon moves although its point is too young",
        "RetainedChanges.advanced",
        "if now_ms - at_ms > retained_ms",
        "if now_ms - at_ms > retained_ms // 3",
        f"{HOST}::test_what_is_older_than_the_hours_goes_and_the_offset_expires",
    ),
    Mutant(
        "a point has a number that its time had not reached",
        "ChangeRetention.note_time",
        "            read_point, now_ms = self._mvcc.read_point, self._clock.now_ms()\n",
        "            read_point, now_ms = self._mvcc.read_point + 2, self._clock.now_ms()\n",
        f"{HOST}::test_what_is_older_than_the_hours_goes_and_the_offset_expires",
    ),
    Mutant(
        "a feed that was switched on again goes on as before",
        "ChangeRetention.switch",
        "            elif before is None:\n                self._state = RetainedChanges(self._mvcc.last)\n",
        "            elif before is None:\n                self._state = RetainedChanges(0)\n",
        f"{HOST}::test_a_feed_begins_when_it_is_switched_on_and_ends_when_it_is_switched_off",
    ),
    Mutant(
        "the beginning of a feed is not durable",
        "Altering.begin_changes",
        "            self._commit(Edit())",
        "            pass",
        f"{HOST}::test_a_feed_survives_a_crash_before_its_first_flush",
    ),
    # ---- offsets
    Mutant(
        "a daughter starts at its own beginning",
        "_span",
        "        if ancestor.region_id in offset:\n",
        "        if False:\n",
        f"{HOST}::test_daughters_go_on_from_the_number_of_their_parent",
    ),
    Mutant(
        "an ancestor that was read to its end expires with the numbers of its neighbour",
        "_span",
        "            since = max(since, ancestor.continued_after)\n",
        "            pass\n",
        f"{HOST}::test_an_ancestor_that_was_read_to_its_end_does_not_expire_with_its_neighbour",
    ),
    Mutant(
        "a daughter knows no parent",
        "ChangeRetention.inherited",
        "            return state.as_ancestor(region_id, start, stop, last)\n",
        "            return state\n",
        FEED,
    ),
    Mutant(
        "of several entries the lowest counts",
        "_span",
        "    since, entry = max(found)\n",
        "    since, entry = min(found)\n",
        FEED,
    ),
    Mutant(
        "the entry of a parent is dropped when one daughter was read",
        "needed",
        "            if number > own:\n",
        "            if number > own and own >= 0:\n",
        f"{HOST}::test_a_parent_counts_for_the_daughter_that_was_not_read",
    ),
    Mutant(
        "the horizon of a merged region counts for the rows of both",
        "_span",
        "        horizon = max(horizon, ancestor.horizon)\n",
        "        pass\n",
        f"{HOST}::test_after_a_merge_the_horizon_of_each_region_counts",
    ),
    Mutant(
        "the offset of now passes unpublished writes",
        "read_changes",
        "{each.region_id: each.read_point for each in newest}",
        "{each.region_id: each.last for each in newest}",
        f"{HOST}::test_the_offset_of_now_does_not_pass_an_unpublished_write",
    ),
    # ---- windows
    Mutant(
        "a window passes over the cells of its last number",
        "GatheredChanges._keep_up_to",
        "            mask: Mask = piece.numbers <= limit\n",
        "            mask: Mask = piece.numbers < limit\n",
        FEED,
    ),
    Mutant(
        "a window passes over what was cut away",
        "read_window",
        "    return ChangeWindow(changes, gathered.limit)\n",
        "    return ChangeWindow(changes, until)\n",
        FEED,
    ),
    Mutant(
        "a window has unpublished changes",
        "read_changes",
        "    until = read_point if until is None else min(until, read_point)\n",
        "    until = parts.mvcc.last\n",
        f"{HOST}::test_unpublished_changes_are_not_read",
    ),
    Mutant(
        "a window is not in order of write number",
        "GatheredChanges.changes",
        'np.argsort(numbers, kind="stable")',
        "np.arange(len(numbers))",
        FEED,
    ),
    Mutant(
        "parts of a number skip a row",
        "_part",
        "chunks.resume_key)",
        'chunks.resume_key + b"\\0")',
        FEED,
    ),
    # ---- the client
    Mutant(
        "the offset passes a batch that was not returned yet",
        "ChangeProgress.take",
        "        if not self._batches:\n            self._offset = self._offset_after\n",
        "        self._offset = self._offset_after\n",
        f"{PROGRESS}::test_the_offset_moves_with_the_batches_that_were_returned",
        CLIENT,
    ),
    Mutant(
        "parts of a region that was split are returned twice",
        "ChangeProgress.take",
        "            self._parts = []  # The region was split or merged meanwhile, and this answer begins again.\n",
        "            pass\n",
        f"{PROGRESS}::test_parts_of_a_region_that_was_split_are_dropped",
        CLIENT,
    ),
]
