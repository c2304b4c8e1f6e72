"""Broken builds of table operations: those that a crash interrupts, and what a dropped table leaves."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

CRASHES = "unit/host/test_table_crashes.py::test_a_crash_at_any_call_of_a_table_operation_leaves_it_done_or_not"
DROPPED = "unit/host/test_region_server.py::test_log_records_of_a_dropped_table_are_in_no_table_after_a_crash"
TABLES = "unit/host/test_region_server.py"

TYPED = (
    "end_to_end/test_typed_tables.py::test_typed_tables_of_all_clients_go_on_without_the_columns_of_a_dropped_family"
)

TABLE_OPERATIONS = [
    Mutant(
        "a typed table does not look the mapping up again after a family was dropped",
        "read_by_mapping",
        "            return read(in_use.codec)\n        except STALE_MAPPING as error:\n",
        "            return read(in_use.codec)\n        except MappingError as error:\n",
        TYPED,
        CLIENT,
    ),
    Mutant(
        "a client that drops a family keeps using the old mapping",
        "Client.alter_table",
        "        answer = self._call_locked(methods.ALTER_TABLE, request)\n"
        "        if mapping is not None or request.drop_families:  # The kept",
        "        answer = self._call_locked(methods.ALTER_TABLE, request)\n        if mapping is not None:  # The kept",
        TYPED,
        CLIENT,
    ),
    Mutant(
        "the error of a damaged region keeps its requests",
        "ServedRegions.region",
        "raise damage.without_frames()",
        "raise damage",
        f"{TABLES}::test_requests_for_a_damaged_region_are_not_kept",
    ),
    Mutant(
        "a dropped table's regions are removed before the catalog commits",
        "RegionServer.drop_table",
        '            with self._catalog.committed(state, f"table {name!r} was dropped"):\n',
        '            self._changes.remove(entry, "its table was dropped")\n'
        '            with self._catalog.committed(state, f"table {name!r} was dropped"):\n',
        CRASHES,
    ),
    Mutant(
        "a truncated table's old regions are removed before the new ones exist",
        "RegionServer.truncate_table",
        '                with self._changes.created(entry, state, replaced, f"table {name!r} was truncated"):\n'
        '                    self._changes.remove(old, "its table was truncated")\n',
        '                self._changes.remove(old, "its table was truncated")\n'
        '                with self._changes.created(entry, state, replaced, f"table {name!r} was truncated"):\n'
        "                    pass\n",
        CRASHES,
    ),
    Mutant(
        "the catalog names a region before its folder exists",
        "RegionChanges.created",
        "        made: list[Region] = []\n",
        "        self.catalog.commit(state)\n        made: list[Region] = []\n",
        CRASHES,
    ),
    Mutant(
        "a family's files are removed before the catalog commits",
        "RegionServer.alter_table",
        '            with self._catalog.committed(state, f"table {name!r} was altered"):\n'
        "                for region in entry.regions:\n"
        "                    if region.region_id in self._regions:\n"
        "                        self._regions[region.region_id].altering.alter(entry.table)\n",
        "            for region in entry.regions:\n"
        "                if region.region_id in self._regions:\n"
        "                    self._regions[region.region_id].altering.alter(entry.table)\n"
        '            with self._catalog.committed(state, f"table {name!r} was altered"):\n'
        "                pass\n",
        CRASHES,
    ),
    Mutant(
        "log records of a dropped table are replayed into another one",
        "Opening._replay.apply",
        "            replay = replays.get(region_id)\n",
        "            replay = replays.get(region_id, next(iter(replays.values())))\n",
        f"{DROPPED}[False]",
    ),
    Mutant(
        "log records of a dropped table are replayed into the next one of its name",
        "Opening._replay.apply",
        "            replay = replays.get(region_id)\n",
        "            replay = replays.get(region_id, replays[max(replays)])\n",
        f"{DROPPED}[True]",
    ),
    Mutant(
        "a region's id is reused",
        "CatalogState.with_new_table",
        "            next_region_id=self.next_region_id + len(regions),\n",
        "            next_region_id=self.next_region_id,\n",
        f"{TABLES}::test_a_dropped_table_leaves_nothing_and_its_ids_are_never_used_again",
    ),
    Mutant(
        "files of a family that was dropped on a full disk stay",
        "LiveFiles._apply",
        "            self._dropped += [file",
        "            self._dropped = [file",
        "unit/region/test_live_files.py::"
        "test_files_of_a_family_that_was_dropped_without_space_are_removed_by_the_next_edit",
    ),
    Mutant(
        "a compaction that is committed while its family is dropped publishes its files",
        "LiveFiles._publish",
        "                if number not in served:\n",
        "                if False:\n",
        "unit/region/test_live_files.py::"
        "test_a_family_that_is_dropped_while_a_replacement_of_its_files_is_committed_leaves_none",
    ),
    Mutant(
        "a typed check of an earlier type is not repeated",
        "TypedCheckAnswer.is_unfit",
        "        except MappingError:\n            return True\n",
        "        except MappingError:\n            return False\n",
        "end_to_end/test_typed_tables.py::test_conditions_go_by_a_mapping_that_another_client_has_widened",
        CLIENT,
    ),
    Mutant(
        "a request that never fits beside its message is busy",
        "PointRun.hand_over",
        "            if is_counted and cost + _MESSAGE_COST > requests.bytes_max:\n",
        "            if False:\n",
        "end_to_end/test_small_memory.py::test_a_request_that_never_fits_beside_its_message_is_refused_at_once",
    ),
]
