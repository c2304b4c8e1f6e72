"""Broken builds of admission: which requests the event loop makes, and which puts are coalesced."""

from __future__ import annotations

from .broken_build import Mutant

COALESCED = "unit/rpc/test_coalesced_changes.py"
POINTS = "unit/engine/test_points.py"
ROW_PUTS = "unit/test_row_puts.py"

ADMISSION = [
    Mutant(
        "a call that the event loop does not take in a second is cancelled",
        "_UNTAKEN_CALL_SECONDS",
        "24 * 3600",
        "1",
        "unit/rpc/test_untaken_calls.py::test_calls_wait_for_a_busy_event_loop",
    ),
    Mutant(
        "calls beyond a thousand that the event loop has not taken are cancelled",
        "_UNTAKEN_CALLS_MAX",
        "100_000",
        "1_000",
        "unit/rpc/test_untaken_calls.py::test_thousands_of_calls_wait_for_a_busy_event_loop",
    ),
    Mutant(
        "a coalesced put forgets its request id",
        "plain_change",
        "mutation.age_ms) if sequence else None,\n",
        "mutation.age_ms) if not sequence else None,\n",
        f"{COALESCED}::test_each_keeps_its_puts_and_its_request_id",
    ),
    Mutant(
        "an append is made as a plain change",
        "plain_change",
        'elif change.HasField("increment"):',
        'elif change.HasField("append"):',
        f"{COALESCED}::test_what_is_no_plain_change_is_made_in_its_place",
    ),
    Mutant(
        "a change for a region that was split is refused",
        "Points.region_to_change",
        "            if successor is None:\n",
        "            if True:\n",
        f"{POINTS}::test_a_change_for_a_region_that_was_replaced_is_made_by_the_one_that_has_its_rows",
    ),
    Mutant(
        "puts of two regions are made in one of them",
        "CoalescedChanges.join",
        "            region_id != self._region_id\n            or durability is not ",
        "            durability is not ",
        f"{COALESCED}::test_those_of_another_region_are_made_there",
    ),
    Mutant(
        "puts of many columns are made in batches as large as others",
        "CoalescedChanges.join",
        "            or self._part_count + part_count > COALESCED_PARTS_MAX\n",
        "",
        f"{COALESCED}::test_puts_of_many_columns_are_made_in_smaller_batches",
    ),
    Mutant(
        "large answers of coalesced changes are made without memory for them",
        "CoalescedChanges._answer",
        " and have_few_bytes(outcomes, bytes_max)",
        "",
        f"{COALESCED}::test_answers_with_cells_are_bounded_as_those_of_other_changes_are",
    ),
    Mutant(
        "the event loop reads a long change",
        "ChangeRun.try_inline",
        "self._request.read(INLINE_ROWS_MAX, INLINE_PARTS_MAX)",
        "self._request.read()",
        f"{POINTS}::test_the_loop_does_not_read_a_long_request",
    ),
    Mutant(
        "a request beyond the bound is accepted",
        "Points._accepts",
        "        if self._in_flight >= self.config.requests_in_flight_max:\n",
        "        if False:\n",
        f"{POINTS}::test_a_request_too_many_is_refused_unread",
    ),
    Mutant(
        "a worker begins a request whose deadline has passed",
        "PointRun._run_in_worker",
        "elif points.is_late(self._deadline):",
        "elif False:",
        f"{POINTS}::test_a_request_whose_deadline_passes_in_the_queue_never_begins",
    ),
    Mutant(
        "a put of values drops the changes beside it",
        "_values_and_changes",
        "(*puts, *_changes(changes, parts_max)) if changes else puts",
        "puts",
        "unit/rpc/test_row_values.py",
    ),
    Mutant(
        "a coalesced put of values is made without them",
        "plain_change",
        "            puts = puts_of(values)\n",
        "            puts_of(values)\n",
        "unit/rpc/test_row_values.py",
    ),
    Mutant(
        "rows of many columns are answered as values, whose lists of columns stay in memory",
        "_row_values",
        "if len(cells) > _COLUMNS_MAX or ",
        "if ",
        "unit/test_row_values_of_both.py",
    ),
    Mutant(
        "a get of several versions is answered as values",
        "PointGet.answer",
        " if get.values_only and get.versions < 2 else None",
        " if get.values_only else None",
        "unit/rpc/test_row_values.py",
    ),
    Mutant(
        "values whose lengths say less than the bytes are put",
        "puts_of",
        "if bounds[-1] != len(data):",
        "if bounds[-1] > len(data):",
        "unit/test_row_values_of_both.py",
    ),
    Mutant(
        "two values of one column are taken for those of two",
        "_columns_of",
        " and len(set(columns)) == count:",
        ":",
        f"{ROW_PUTS}::test_others_are_single_puts",
    ),
    Mutant(
        "values of two families are put into the first",
        "_columns_of",
        "len({family for family, _ in columns}) == 1 and ",
        "",
        f"{ROW_PUTS}::test_others_are_single_puts",
    ),
    Mutant(
        "values go to the columns in ascending order, whatever the client's",
        "PutColumns.ascending",
        "values if self._in_order is None else self._in_order(values)",
        "values",
        f"{ROW_PUTS}::test_they_are_in_the_order_of_their_columns",
    ),
    Mutant(
        "values longer than a cell may be are put",
        "check_mutation",
        "\n        and changes.value_bytes_max <= cell_bytes_max",
        "",
        f"{ROW_PUTS}::test_they_are_checked_and_made_as_single_puts_are",
    ),
    Mutant(
        "values are put under qualifiers that are too long",
        "check_mutation",
        "\n        and changes.columns.qualifier_bytes_max <= qualifier_bytes_max",
        "",
        f"{ROW_PUTS}::test_they_are_checked_and_made_as_single_puts_are",
    ),
    Mutant(
        "values are put into a family that the table does not have",
        "check_mutation",
        "        and changes.columns.family in families\n",
        "",
        f"{ROW_PUTS}::test_they_are_checked_and_made_as_single_puts_are",
    ),
    Mutant(
        "memory for the values of a put is not counted",
        "check_mutation",
        " + changes.columns.qualifier_bytes + changes.value_bytes",
        "",
        f"{ROW_PUTS}::test_they_are_checked_and_made_as_single_puts_are",
    ),
    Mutant(
        "long columns of answers stay in memory",
        "_row_values",
        ' or len(b"".join([cell[1] for cell in cells])) > _COLUMN_BYTES_MAX',
        "",
        "unit/test_row_values_of_both.py",
    ),
    Mutant(
        "a large answer is copied before it is found too large for values",
        "_encoded",
        "    if sum(value_lengths) > _ANSWER_BYTES_MAX:\n        return None\n",
        "",
        "unit/rpc/test_row_values.py",
    ),
    Mutant(
        "columns without lengths are split",
        "_columns_of",
        "    if len(names) != count:",
        "    if False:",
        "unit/rpc/test_row_values.py",
    ),
]
