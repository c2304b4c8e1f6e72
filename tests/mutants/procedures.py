"""Broken builds of row procedures: the region's part, the process's, the log's, and the client's."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

REGION = "unit/region/test_procedure_calls.py"
PROCESSES = "unit/procedures/test_runner.py"
TABLE = "unit/procedures/test_procedure_table.py"
CALLS = "unit/client/blocking/test_calls.py"
ONCE = f"{REGION}::test_a_repeated_call_gets_its_answer_and_runs_once"

_REGION = [
    Mutant(
        "the row is not locked while a procedure runs",
        "ProcedureCalls._make",
        "        rows = [call.row]\n",
        "        rows: list[bytes] = []\n",
        f"{REGION}::test_nothing_comes_between_the_reads_of_a_procedure_and_its_changes",
    ),
    Mutant(
        "the gate is not held while a procedure runs",
        "ProcedureCalls._make",
        "                        return self._call_once(call, run, stamp, options)\n",
        "                        self._gate.leave()\n"
        "                        try:\n"
        "                            return self._call_once(call, run, stamp, options)\n"
        "                        finally:\n"
        "                            self._gate.enter(options.deadline)\n",
        f"{REGION}::test_a_bulk_batch_waits_for_a_procedure",
    ),
    Mutant(
        "a repeated call runs the procedure again",
        "ProcedureCalls._call_once",
        "            if saved is not None:\n",
        "            if False:\n",
        f"{ONCE}[1048576-False]",
    ),
    Mutant(
        "a call that failed runs again when it is repeated",
        "ProcedureCalls._call_once",
        "        if request is not None and is_definite_without_change(outcome):\n",
        "        if False:\n",
        f"{REGION}::test_a_repeated_call_that_failed_fails_again_and_does_not_run",
    ),
    Mutant(
        "a procedure changes another row",
        "ProcedureCalls._check_reply",
        "        if reply.row != call.row:\n",
        "        if False:\n",
        f"{REGION}::test_another_row_is_not_changed",
    ),
    Mutant(
        "a procedure writes as much as it wants",
        "ProcedureCalls._check_reply",
        "        if byte_count > bytes_max:\n",
        "        if False:\n",
        f"{REGION}::test_what_a_procedure_may_not_write_is_refused_as_a_whole",
    ),
    Mutant(
        "what a procedure writes is not checked",
        "ProcedureCalls._check_reply",
        "        if reply.changes:\n",
        "        if False:\n",
        f"{REGION}::test_what_a_procedure_may_not_write_is_refused_as_a_whole",
    ),
    Mutant(
        "a procedure's changes may be older than what it read",
        "ProcedureCalls._run_and_change",
        "max(reads.timestamp_max, changed_timestamp_max(reply.changes, reads.newest))",
        "0",
        f"{REGION}::test_changes_are_later_than_what_was_read",
    ),
    Mutant(
        "a procedure's answer reveals a write that may still be lost",
        "ProcedureCalls._run_and_change",
        "RowResult(answer=reply.answer), state.newest_write_number,",
        "RowResult(answer=reply.answer), 0,",
        f"{REGION}::test_what_depends_on_an_unpublished_write_waits_for_it",
    ),
    Mutant(
        "a procedure reads as much as it wants",
        "ProcedureReads._count",
        "        if self._byte_count > self._bytes_max:\n",
        "        if False:\n",
        f"{REGION}::test_reads_are_bounded_over_the_whole_call",
    ),
    Mutant(
        "each read of a procedure has the whole bound",
        "ProcedureReads._count",
        "self._byte_count += CELL_BYTES",
        "self._byte_count = CELL_BYTES",
        f"{REGION}::test_reads_are_bounded_over_the_whole_call",
    ),
    Mutant(
        "a procedure reads older versions",
        "ProcedureReads._cells",
        "            if cell[0] != last:\n",
        "            if True:\n",
        f"{REGION}::test_a_procedure_reads_the_newest_version_of_each_column",
    ),
    Mutant(
        "the log forgets a procedure's answer",
        "encode_row",
        "        if result.answer:\n",
        "        if False:\n",
        f"{ONCE}[1048576-False]",
    ),
    Mutant(
        "a manifest forgets a procedure's answer",
        "_answer_to_json",
        "if result.answer else {}",
        "if False else {}",
        f"{ONCE}[1048576-True]",
    ),
    Mutant(
        "large answers of procedures are kept without a bound",
        "bytes_of_cells",
        ", len(result.answer))",
        ", 0)",
        f"{REGION}::test_large_answers_are_cut_like_large_cells",
    ),
]

_PROCESSES = [
    Mutant(
        "the result of a call is applied after its time",
        "ChildProcess._remaining",
        "        return deadline - self._clock.monotonic()\n",
        "        return max(deadline - self._clock.monotonic(), 5.0)\n",
        f"{PROCESSES}::test_a_result_that_comes_too_late_is_none",
    ),
    Mutant(
        "half of the changes of a procedure that raises are made",
        "answer_call",
        "        table._end()\n"
        '        channel.send(MessageKind.FAILED, [number, _described(error).encode(errors="backslashreplace")])\n',
        '        channel.send(MessageKind.DONE, [number, row, b"", *table._end()])\n',
        f"{PROCESSES}::test_the_message_of_what_a_procedure_raises_comes_back_and_its_changes_do_not",
    ),
    Mutant(
        "a procedure answers with something else than bytes",
        "answer_call",
        "        if type(answer) is not bytes:\n",
        "        if answer is None:\n",
        f"{PROCESSES}::test_what_is_no_bytes_is_no_answer",
    ),
    Mutant(
        "a procedure continues after a refused read",
        "ChildProcess._run",
        "                if refusal is not None:\n",
        "                if False:\n",
        f"{PROCESSES}::test_a_read_that_is_refused_fails_the_call_whatever_the_procedure_does_then",
    ),
    Mutant(
        "the result of another call is taken",
        "ChildProcess._run",
        "            if not fields or fields[0] != number:\n",
        "            if not fields:\n",
        f"{PROCESSES}::test_messages_out_of_turn_end_the_process",
    ),
    Mutant(
        "a process that has died is called",
        "ProcedureRunner._take",
        "            if child.is_running():\n",
        "            if True:\n",
        f"{PROCESSES}::test_a_process_that_dies_between_calls_is_replaced",
    ),
    Mutant(
        "what procedures print is the server's output",
        "ChildProcess.__init__",
        "                stdout=2,",
        "                stdout=None,",
        f"{PROCESSES}::test_what_a_procedure_prints_does_not_reach_standard_output",
    ),
    Mutant(
        "a procedure uses another row",
        "ProcedureTable._check",
        "        if encoded != self._row:\n",
        "        if False:\n",
        f"{TABLE}::test_other_rows_are_refused_by_each_method",
    ),
    Mutant(
        "a procedure does not see what it has deleted",
        "ProcedureTable.row",
        "if not self._is_row_deleted and family not in self._deleted_families",
        "if family not in self._deleted_families",
        f"{TABLE}::test_a_procedure_reads_what_the_server_will_have",
    ),
]

_CLIENT = [
    Mutant(
        "the client repeats a call of a procedure without a number",
        "call",
        "is_change=True)",
        "is_change=False)",
        f"{CALLS}::test_a_call_of_a_procedure_is_sent_again_with_its_number",
        CLIENT,
    ),
]

PROCEDURES = [*_REGION, *_PROCESSES, *_CLIENT]
