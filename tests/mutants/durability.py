"""Broken builds of writing to disk: the log, generations and store files."""

from __future__ import annotations

from .broken_build import Mutant

APPENDING = "unit/wal/test_appending.py"
DESCRIPTORS = "unit/host/test_descriptors.py"
FORMATS = "unit/wal/test_formats.py"
DURABLE = "unit/test_durable_files.py"
GENERATIONS = "unit/test_generations.py"
STOPPING = "unit/host/test_stopping.py"
PREALLOCATED = "unit/wal/test_preallocated.py"
IDLE = "unit/wal/test_idle_markers.py"
LOST_ENDS = "unit/wal/test_lost_ends.py"
ROLLING = "unit/wal/test_rolling_and_cleaning.py"
STORE_DAMAGE = "unit/storefile/test_damage.py"
STORE_WRITER = "unit/storefile/test_writer.py"
WAL_DAMAGE = "unit/wal/test_damage.py"
WAL_FULL = "unit/wal/test_disk_full.py"

DURABILITY = [
    # ---- the log is appended to
    Mutant(
        "the log completes before it syncs",
        "Writer._write",
        "            self._sync()\n            for complete in completes[synced_from:]:\n                complete()\n",
        "            for complete in completes[synced_from:]:\n                complete()\n            self._sync()\n",
        f"{APPENDING}::test_fsync_completes_after_the_sync_and_os_before_it",
    ),
    Mutant(
        "the log completes before it writes",
        "Writer._write",
        "        for complete in completes[:written_from]:\n",
        "        written_from = synced_from\n        for complete in completes[:written_from]:\n",
        f"{APPENDING}::test_os_completes_after_the_write",
    ),
    Mutant(
        "a short write is taken for a complete one",
        "write_all",
        "        while written < view.nbytes:\n",
        "        while False:\n",
        f"{APPENDING}::test_a_short_write_is_continued",
    ),
    Mutant(
        "a short write of LMDB ends the server",
        "_FAILED_WRITE",
        "NO_SPACE | {errno.EFBIG, errno.EIO}",
        "NO_SPACE",
        f"{STORE_WRITER}::test_a_write_that_lmdb_could_not_make_whole_leaves_nothing_and_the_next_try_works",
    ),
    Mutant(
        "a record's checksum does not know its place",
        "extend_checksum",
        "= google_crc32c.extend\n",
        "= lambda start, data: google_crc32c.extend(start & ~0xFFFF, data)\n",
        f"{FORMATS}::test_a_record_is_valid_only_at_its_own_place_of_its_own_segment_of_its_own_log",
    ),
    Mutant(
        "a record's checksum does not know its log",
        "segment_seed",
        "    return checksum_of(log_id + number",
        "    return checksum_of(number",
        f"{FORMATS}::test_a_record_is_valid_only_at_its_own_place_of_its_own_segment_of_its_own_log",
    ),
    Mutant(
        "a record's checksum does not know its segment",
        "segment_seed",
        '(log_id + number.to_bytes(4, "little"))',
        "(log_id)",
        f"{FORMATS}::test_a_record_is_valid_only_at_its_own_place_of_its_own_segment_of_its_own_log",
    ),
    Mutant(
        "an appended record claims to be proven durable",
        "Pending._add",
        "            self._seed, offset, region_id, write_number, previous, self.durable, kind, payload\n",
        "            self._seed, offset, region_id, write_number, previous, self.end(), kind, payload\n",
        "unit/wal/test_torn_tail.py::test_valid_records_behind_a_bad_one_that_prove_nothing_are_cut_with_the_tail",
    ),
    Mutant(
        "CHECK ignores a full disk",
        "Log.check_space",
        "        if self._preallocated.is_full:\n            raise",
        "        if False:\n            raise",
        f"{WAL_FULL}::test_writes_are_refused_when_the_next_segment_can_not_be_made_and_resume_when_it_can",
    ),
    Mutant(
        "pending log records have no bound",
        "Log.check_space",
        "        if pending_bytes and pending_bytes + byte_count > self._config.log_pending_bytes_max:\n",
        "        if False:\n",
        f"{APPENDING}::test_too_much_pending_is_refused_and_taken_again_when_it_is_written",
    ),
    Mutant(
        "a single caller waits for a disk that hangs",
        "BriefWait.end",
        "        self._arrived.acquire(timeout=WAIT_SECONDS)\n",
        "        self._arrived.acquire(timeout=300)\n",
        "unit/region/test_brief_wait.py::test_the_wait_is_no_longer_than_the_limit",
    ),
    Mutant(
        "an outcome after a brief wait is lost",
        "BriefWait",
        "        self._done(outcome)\n\n    def end",
        "\n    def end",
        "unit/region/test_brief_wait.py",
    ),
    Mutant(
        "an idle log leaves its last record unproven",
        "Writer._run",
        "                self._mark_idle()\n",
        "                pass\n",
        f"{APPENDING}::test_the_idle_marker_makes_the_last_record_provable",
    ),
    Mutant(
        "a closed log leaves its last record unproven",
        "Writer._finish",
        "        write_all(self._files, self._descriptor, marker, self._written.offset)\n",
        "",
        f"{APPENDING}::test_closing_completes_all_records_and_leaves_a_segment_of_its_contents_size",
    ),
    Mutant(
        "a marker of an idle log names every region",
        "Chains.idle_marker",
        "        if region_count == len(self.news) or",
        "        if True or",
        f"{IDLE}::test_a_put_with_many_tables_adds_no_more_to_the_log_than_with_one",
    ),
    Mutant(
        "a partial marker leaves out changed regions",
        "Pending.append",
        "        chains.news.add(region_id)\n        self._batch.add(durability, complete)\n",
        "        self._batch.add(durability, complete)\n",
        f"{IDLE}::test_a_partial_marker_names_the_regions_with_records_since_the_one_before",
    ),
    # ---- the file beside the log
    Mutant(
        "no file beside the log says how far it is durable",
        "Writer._sync",
        "            self._durable.write(self._written)\n            self._pending.durable = self._written\n",
        "            self._pending.durable = self._written\n",
        f"{LOST_ENDS}::test_lost_records_that_a_killed_server_had_synced_are_named",
    ),
    Mutant(
        "a position is noted before it is durable",
        "Writer._sync",
        "            self._files.fdatasync(self._descriptor)\n            self.sync_count += 1\n"
        "            self._durable.write(self._written)\n",
        "            self._durable.write(self._written)\n            self._files.fdatasync(self._descriptor)\n"
        "            self.sync_count += 1\n",
        "property/test_wal_power_cuts.py",
    ),
    Mutant(
        "a new segment is not noted",
        "Writer._roll",
        "        self._durable.write(self._written)\n        self._durable.sync()\n",
        "",
        f"{LOST_ENDS}::test_a_missing_newest_segment_is_named_after_a_power_failure",
    ),
    # ---- reservations
    Mutant(
        "a new segment does not repeat reservations",
        "Chains._state",
        "reserved = self.reserved.get(region_id, (0, 0))\n        return",
        "reserved = (0, 0)\n        return",
        f"{ROLLING}::test_a_reservation_outlives_the_segment_that_it_was_made_in",
    ),
    Mutant(
        "a reservation is not durable when it is used",
        "Pending._add_note",
        "        self._chains.news.add(region_id)\n        self.pass_through(_FSYNC, do_nothing)\n",
        "        self._chains.news.add(region_id)\n        self.pass_through(0, do_nothing)\n",
        f"{ROLLING}::test_records_after_a_reservation_complete_when_it_is_durable",
    ),
    # ---- space
    Mutant(
        "a record that waits for space is completed too early",
        "Writer._write",
        "            self._ensure_space(batch.offset + len(batch.data))\n",
        "            pass\n",
        f"{WAL_FULL}::test_a_record_larger_than_a_segment_waits_for_space",
    ),
    Mutant(
        "a stop waits for log space",
        "RegionServer.stop_waiting_for_space",
        "        self._log.stop_waiting_for_space()\n",
        "        pass\n",
        f"{STOPPING}::test_a_stop_does_not_wait_for_a_log_segment",
    ),
    Mutant(
        "a stop without space ends as a failed sync does",
        "DiskFailures.end",
        "        if isinstance(error, NoSpaceToStopError):\n",
        "        if False:\n",
        f"{STOPPING}::test_a_stop_does_not_wait_for_a_log_segment",
    ),
    # ---- segments
    Mutant(
        "a log that finds no descriptor for its next segment ends the server",
        "PreallocatedSegment._make",
        "        except TooManyOpenFilesError:\n            return None\n",
        "",
        f"{DESCRIPTORS}::test_a_write_taken_before_the_log_finds_no_descriptor_waits_for_one_and_completes",
    ),
    Mutant(
        "a log without its next segment does not retry",
        "PreallocatedSegment._run",
        "                        self._changed.wait(RETRY_SECONDS)\n",
        "                        self._changed.wait()\n",
        f"{PREALLOCATED}::test_a_try_without_space_wakes_the_writer_and_is_followed_by_another",
    ),
    Mutant(
        "a log that waits for its next segment is not woken",
        "PreallocatedSegment._run",
        "                    self._changed.notify_all()\n                    if descriptor is None",
        "                    if descriptor is None",
        f"{PREALLOCATED}::test_a_try_without_space_wakes_the_writer_and_is_followed_by_another",
    ),
    Mutant(
        "a roll does not sync the old segment",
        "Writer._roll",
        "        self._sync()\n        descriptor, segment_bytes = self._preallocated.take()\n",
        "        descriptor, segment_bytes = self._preallocated.take()\n",
        f"{ROLLING}::test_the_old_segment_and_the_new_name_are_durable_before_a_record_of_the_new_one_completes",
    ),
    Mutant(
        "a new segment has its name before its head is durable",
        "Writer._roll",
        "        self._files.fdatasync(descriptor)\n        name_preallocated(",
        "        name_preallocated(",
        f"{ROLLING}::test_the_old_segment_and_the_new_name_are_durable_before_a_record_of_the_new_one_completes",
    ),
    Mutant(
        "no folder fsync after a segment is named",
        "name_preallocated",
        "    files.fsync_folder(folder)\n",
        "",
        f"{ROLLING}::test_the_old_segment_and_the_new_name_are_durable_before_a_record_of_the_new_one_completes",
    ),
    Mutant(
        "a segment is removed before it is flushed",
        "LogCleaner._pins",
        "self._flushed.get(region_id, 0) < sealed.regions[region_id]",
        "self._flushed.get(region_id, 1 << 62) < sealed.regions[region_id]",
        f"{ROLLING}::test_the_cleaner_removes_no_younger_segment_while_an_older_one_is_pinned",
    ),
    Mutant(
        "any segment is removed before the oldest",
        "LogCleaner._removable",
        "        sealed = self._sealed[0]\n",
        "        free = [each for each in self._sealed if not self._pinning(each)]\n"
        "        sealed = free[0] if free else self._sealed[0]\n"
        "        self._sealed.remove(sealed)\n        self._sealed.appendleft(sealed)\n",
        f"{ROLLING}::test_the_cleaner_removes_no_younger_segment_while_an_older_one_is_pinned",
    ),
    Mutant(
        "the regions of a removed segment decide about the next one",
        "LogCleaner._removable",
        "        if self._oldest != sealed.number:\n",
        "        if not self._oldest:\n",
        f"{ROLLING}::test_each_segment_is_pinned_by_its_own_regions",
    ),
    Mutant(
        "two segments are removed with one sync",
        "LogCleaner._remove",
        "        self._files.fsync_folder(self._folder)\n",
        "        if sealed.number % 2:\n            self._files.fsync_folder(self._folder)\n",
        f"{ROLLING}::test_each_removal_is_durable_before_the_next_so_there_is_never_a_hole",
    ),
    Mutant(
        "a dropped region pins its segments",
        "LogCleaner._pins",
        "            and region_id not in self._forgotten\n",
        "",
        f"{ROLLING}::test_the_regions_that_pin_are_named_when_there_are_too_many_segments",
    ),
    Mutant(
        "a segment with damage is removed",
        "LogCleaner._remove",
        "        if is_evidence:\n",
        "        if False:\n",
        f"{WAL_DAMAGE}::test_a_segment_with_damage_is_set_aside_instead_of_removed",
    ),
    # ---- new files
    Mutant(
        "a file that could not be written stays",
        "_removed_on_failure",
        "                files.remove_if_there(written)\n",
        "                pass\n",
        f"{DURABLE}::test_a_failure_before_the_rename_changes_nothing_and_leaves_nothing[ENOSPC-pwrite]",
    ),
    Mutant(
        "a full disk counts as a failed disk",
        "_full_disk_as_error",
        "        if error.errno in NO_SPACE:\n",
        "        if False:\n",
        f"{DURABLE}::test_a_failure_before_the_rename_changes_nothing_and_leaves_nothing[EDQUOT-pwrite]",
    ),
    Mutant(
        "an unnamed file stays when its name may not be durable",
        "durably_named",
        "    with _removed_on_failure(files, path, path):\n",
        "    with _full_disk_as_error(path):\n",
        f"{DURABLE}::test_a_file_that_nothing_names_yet_is_removed_when_a_step_fails[durably_named-fsync_folder-EIO]",
    ),
    Mutant(
        "a new file overwrites an existing one",
        "new_file",
        "os.O_EXCL)",
        "os.O_TRUNC)",
        f"{DURABLE}::test_a_new_file_does_not_touch_one_of_its_name",
    ),
    # ---- generations
    Mutant(
        "no fsync before a generation is named",
        "write_synced",
        "        files.fsync(descriptor)\n",
        "",
        f"{GENERATIONS}::test_a_crash_at_any_call_leaves_the_old_generation_or_the_new_one_whole",
    ),
    Mutant(
        "no folder fsync after a generation is named",
        "replace_file",
        "        files.fsync_folder(path.parent)\n",
        "        pass\n",
        f"{GENERATIONS}::test_a_folder_that_can_not_be_synced_is_an_unknown_outcome",
    ),
    Mutant(
        "a generation that may not be durable counts as not written",
        "replace_file",
        '        raise UnknownOutcomeError(f"{path} is written',
        '        raise DiskFullError(f"{path} is written',
        f"{GENERATIONS}::test_a_folder_that_can_not_be_synced_is_an_unknown_outcome",
    ),
    Mutant(
        "a generation's checksum is ignored",
        "read",
        "    if computed != checksum:\n",
        "    if False:\n",
        f"{GENERATIONS}::test_every_flipped_bit_of_the_newest_generation_is_an_error_that_names_it",
    ),
    Mutant(
        "an older generation replaces a damaged one",
        "read_newest",
        "    path = generation_path(folder, name, numbers[-1])\n"
        "    return numbers[-1], read(files, path, numbers[-1], version_max=version_max)\n",
        "    for number in reversed(numbers):\n        with contextlib.suppress(CorruptionError):\n"
        "            return number, read(files, generation_path(folder, name, number), number)\n"
        "    raise CorruptionError(folder, 0, 'a generation', 'none')\n",
        f"{GENERATIONS}::test_every_flipped_bit_of_the_newest_generation_is_an_error_that_names_it",
    ),
    # ---- store files
    Mutant(
        "no fsync before a store file is named",
        "_read_back_and_sync",
        "        files.fsync(descriptor)\n",
        "",
        f"{STORE_WRITER}::test_the_file_is_synced_before_it_is_renamed_and_its_folder_after",
    ),
    Mutant(
        "no folder fsync after a store file is named",
        "durably_named",
        "        files.fsync_folder(path.parent)\n",
        "        pass\n",
        f"{STORE_WRITER}::test_the_file_is_synced_before_it_is_renamed_and_its_folder_after",
    ),
    Mutant(
        "a block's checksum is ignored",
        "_verified_payload",
        "    check_payload(payload, extent.header, path, extent.offset)\n",
        "",
        f"{STORE_DAMAGE}::test_a_flipped_value_would_be_a_wrong_answer_if_checksums_were_not_compared",
    ),
    Mutant(
        "a store file's length is ignored",
        "read_metadata",
        "    if file_bytes != info.file_bytes:\n",
        "    if False:\n",
        f"{STORE_DAMAGE}::test_a_file_with_more_at_its_end_is_refused",
    ),
    Mutant(
        "a store file may be of another manifest",
        "read_metadata",
        "    if not info.agrees_with(contents.summary):\n",
        "    if False:\n",
        "unit/storefile/test_reader.py::test_an_info_that_does_not_fit_the_file_is_refused",
    ),
    Mutant(
        "written blocks are not read back",
        "_read_back_and_sync",
        "            payload = read_payload(files, descriptor, path, extent)\n",
        "            continue\n",
        f"{STORE_WRITER}::test_a_value_that_lmdb_did_not_put_where_it_says_fails_the_write",
    ),
]
