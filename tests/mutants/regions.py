"""Broken builds of regions that are split and merged: rows would be written twice, or never found again."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

_CATALOG = "unit/catalog/test_regions.py"
_BULK = "unit/client/test_bulk.py"
_FACE = "unit/client/blocking/test_regions.py"

REGION_MUTANTS = [
    Mutant(
        "reserved region ids are given to the next table, too",
        "CatalogState.with_reserved_regions",
        "return replace(self, next_region_id=stop), tuple(range(first, stop))",
        "return self, tuple(range(first, stop))",
        f"{_CATALOG}::test_reserved_ids_are_never_given_to_another_region",
    ),
    Mutant(
        "the regions of a new table are in the order of the request",
        "checked_splits",
        "rows = sorted(splits)",
        "rows = list(splits)",
        f"{_CATALOG}::test_splits_are_the_first_rows_of_all_regions_but_the_first_in_any_order",
    ),
    Mutant(
        "the last region of a table is the neighbour of the first one",
        "with_merged",
        "if not left.stop or left.stop != right.start:",
        "if left.stop != right.start:",
        f"{_CATALOG}::test_an_impossible_merge_is_refused[3-1-InvalidRequestError-region 1 of table 't' does not begin "
        "where region 3 stops]",
    ),
    Mutant(
        "a part of a bulk batch that was applied is applied again",
        "BulkLoad._saved",
        "for sequence in request.parts_of:",
        "for sequence in ():",
        "unit/region/test_bulk_load.py::test_a_part_of_a_batch_that_was_applied_is_not_applied_again[6-]",
    ),
    Mutant(
        "a part of a bulk batch that was staged is staged again",
        "StagedContents.find",
        "in (request.sequence, *request.parts_of)",
        "in (request.sequence,)",
        "unit/host/test_bulk_commit.py::test_a_part_of_a_batch_that_was_staged_is_not_staged_again",
    ),
    Mutant(
        "a bulk batch of which a part was staged is staged as a whole",
        "StagedContents.find",
        "        return self._of_part.get((request.client, request.sequence))",
        "        return None",
        "unit/host/test_many_batches.py::test_a_whole_batch_that_comes_after_a_part_of_it_adds_nothing",
    ),
    Mutant(
        "the parts of a bulk batch in doubt don't name it, so its rows are written twice",
        "BulkSend._split_off_other_regions",
        "            self._become_part(bulk)\n",
        "            pass\n",
        f"{_BULK}::test_a_batch_in_doubt_whose_region_was_split_becomes_parts_of_itself",
        CLIENT,
    ),
    Mutant(
        "the first part of a bulk batch in doubt is taken for the whole",
        "BulkSend._become_part",
        "        bulk.sequence = self._take()\n",
        "",
        f"{_BULK}::test_a_batch_in_doubt_whose_region_was_split_becomes_parts_of_itself",
        CLIENT,
    ),
    Mutant(
        "the server may forget the answer to a bulk batch in doubt when its first part is answered",
        "BulkSend._end",
        "if not whole.parts_left:",
        "if whole.parts_left < 2:",
        f"{_BULK}::test_a_batch_in_doubt_whose_region_was_split_becomes_parts_of_itself",
        CLIENT,
    ),
    Mutant(
        "the rest of a bulk batch in doubt is sent as if it were new",
        "BulkSend._split_off_other_regions",
        "remainder.attempts = copy.copy(bulk.attempts)",
        "remainder.attempts = None",
        f"{_BULK}::test_a_part_of_a_batch_in_doubt_that_a_busy_server_refuses_stays_in_doubt",
        CLIENT,
    ),
    Mutant(
        "a batch is sent again to a region that no longer has its rows",
        "BatchSend.absorb",
        "self.has_moved |= isinstance(error, NotServingRegionError)",
        "pass",
        "unit/client/test_batches.py::test_rows_that_their_region_no_longer_has_are_repeated_where_they_are_now",
        CLIENT,
    ),
    Mutant(
        "a split whose answer was lost is made again",
        "RegionCalls._change",
        "return self._call_locked(method, request, Kind.READ)",
        "return self._call_locked(method, type(request)(table=request.table, lock=request.lock), Kind.READ)",
        f"{_FACE}::test_a_split_and_a_merge_at_a_row_whose_answer_is_lost_are_repeated_and_made_once[Mishap.ANSWER_IS_LOST]",
        CLIENT,
    ),
    Mutant(
        "a cached region stays although a newer one overlaps it",
        "_overlaps_any",
        "bisect_left(starts, region.stop)",
        "bisect_right(starts, region.stop)",
        "unit/client/test_regions.py::test_of_regions_that_are_stored_in_turn_those_stay_that_no_later_one_overlaps",
        CLIENT,
    ),
    Mutant(
        "a batch is sent as one message however large it is",
        "fitting_lines",
        "        if byte_count > bytes_max and place:\n",
        "        if False:\n",
        "unit/client/test_batches.py::test_a_batch_is_divided_into_requests_that_the_server_takes",
        CLIENT,
    ),
]
