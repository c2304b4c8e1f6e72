"""Broken builds of puts in columns: the region's, the log's, the front end's and the client's part."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

REGION = "unit/region/test_column_puts.py"
MESSAGES = "unit/rpc/test_put_rows.py"
OF_CLIENT = "unit/client/test_put_rows.py"
MEMSTORE = "unit/memstore/test_memstore.py"
BATCHES = "unit/client/test_batches.py"


def of_client(name: str, where: str, passage: str, replacement: str, caught_by: str) -> Mutant:
    return Mutant(name, where, passage, replacement, caught_by, CLIENT)


_REGION = [
    Mutant(
        "a large batch makes as many segments as it has pieces",
        "ColumnPuts.put",
        "                if pending:\n",
        "                if False:\n",
        f"{REGION}::test_segments_of_a_large_batch_are_merged_between_its_pieces",
    ),
    Mutant(
        "segments are merged before the caller is answered",
        "ColumnPuts.put",
        "        self._write_path.notify_when_published(done, pending)\n        self._merge_segments()\n",
        "        self._merge_segments()\n        self._write_path.notify_when_published(done, pending)\n",
        f"{REGION}::test_segments_are_merged_after_the_answer",
    ),
    Mutant(
        "puts in columns that were made fail when the region is closed meanwhile",
        "ColumnPuts._merge_segments",
        "contextlib.suppress(NotServingRegionError)",
        "contextlib.nullcontext()",
        f"{REGION}::test_no_segments_are_merged_in_a_region_that_was_closed",
    ),
    Mutant(
        "a batch waits for the gate to merge segments",
        "ColumnPuts._merge_segments",
        "if self._gate.try_enter():",
        "if self._gate.enter(0.0) is None:",
        f"{REGION}::test_no_segments_are_merged_while_another_thread_wants_the_gate",
    ),
    Mutant(
        "a refused row of puts in columns stops the others",
        "ColumnPuts._check",
        "            return None  # The write path finds out which rows are refused, and why.\n",
        "            raise\n",
        f"{REGION}::test_a_refused_row_stops_no_other",
    ),
    Mutant(
        "a row of puts in columns that has no value counts as changed",
        "ColumnPuts._check",
        "            if arranged.row_count < len(piece):\n                return None\n",
        "",
        f"{REGION}::test_a_row_without_a_value_is_refused",
    ),
    Mutant(
        "puts in columns may lie outside of the region",
        "ColumnPuts._check",
        "                check_in_region(row, self._start, self._stop, self._region_id)\n",
        "                pass\n",
        f"{REGION}::test_rows_outside_of_the_region_are_refused_one_by_one",
    ),
    Mutant(
        "of two rows in columns with one id both are made",
        "ColumnPuts._check",
        "        if requests is not None and len(set(requests.sequences)) < len(requests.sequences):\n",
        "        if False:\n",
        f"{REGION}::test_two_rows_with_one_id_are_not_both_made",
    ),
    Mutant(
        "puts in columns that meet an alter are not checked again",
        "ColumnPuts._put_together",
        "                if self._stores.served.table is not checked.table:\n                    continue\n",
        "",
        f"{REGION}::test_families_that_change_meanwhile_are_checked_again",
    ),
    Mutant(
        "puts in columns may be older than the cells that they replace",
        "ColumnPuts._put_together",
        "                    if self._numbering.reads_rows(stamp) or not",
        "                    if not",
        f"{REGION}::test_rows_whose_cells_may_be_later_than_the_stamp_are_read_first",
    ),
    Mutant(
        "the ids of puts in columns are not saved",
        "ColumnPuts._apply",
        "        if requests is not None:\n",
        "        if False:\n",
        f"{REGION}::test_repeated_rows_get_their_answers_and_new_ones_are_made",
    ),
    Mutant(
        "a repeated row in columns is made again beside new ones",
        "IdempotencyTable.are_new",
        "            return all(answer_of(answers, sequence) is None for sequence in sequences)\n",
        "            return True\n",
        f"{REGION}::test_repeated_rows_get_their_answers_and_new_ones_are_made",
    ),
    Mutant(
        "puts in columns below the client's floor are made again",
        "IdempotencyTable.are_new",
        "            if lowest < client.floor:\n                return False\n",
        "",
        f"{REGION}::test_rows_below_the_floor_are_unknown_and_not_made_again",
    ),
    Mutant(
        "puts in columns do not raise the client's floor",
        "IdempotencyTable.save_each",
        "            self._forget_answers(client, floor)\n",
        "",
        f"{REGION}::test_their_floor_is_the_clients",
    ),
    Mutant(
        "puts in columns are answered before they are durable",
        "ColumnPuts._apply",
        "        return RowResult(timestamp=stamp), write_number, 0\n",
        "        return RowResult(timestamp=stamp), 0, 0\n",
        f"{REGION}::test_no_row_is_seen_before_it_is_published",
    ),
    Mutant(
        "a failed piece of puts in columns hides that earlier ones were made",
        "ColumnPuts.put",
        "            if not pending:\n                raise\n",
        "            raise\n",
        f"{REGION}::test_a_later_piece_that_fails_as_a_whole_fails_only_its_rows",
    ),
    Mutant(
        "puts in columns do not wait for the locks of their rows",
        "ColumnPuts._locked",
        "                row_locks.acquire(rows, deadline)\n",
        "                rows = ()\n",
        f"{REGION}::test_rows_wait_for_the_locks_of_others_and_release_theirs",
    ),
    Mutant(
        "segments of puts in columns are never merged",
        "ColumnPuts._merge_segments",
        "                    self._applier.merge_segments()\n",
        "                    pass\n",
        f"{REGION}::test_small_segments_are_merged",
    ),
    Mutant(
        "segments that a bulk batch has merged are exchanged once more",
        "Memstore._exchange",
        "            if not all(segment in self._segments for segment in run):\n                return\n",
        "",
        f"{MEMSTORE}::test_what_a_bulk_batch_has_merged_or_a_flush_has_is_not_exchanged",
    ),
    Mutant(
        "several threads merge the same segments",
        "Memstore.merge_run",
        "        if not self._merging.acquire(blocking=False):\n            return  # The next batch does it.\n",
        "        self._merging = threading.Lock()\n        self._merging.acquire()\n",
        f"{MEMSTORE}::test_one_thread_merges_at_once",
    ),
    Mutant(
        "merged segments have any number of bytes",
        "Memstore._run_of",
        "is_much_larger or byte_count > MERGED_BYTES_MAX or ",
        "is_much_larger or ",
        f"{MEMSTORE}::test_merged_segments_have_a_bound",
    ),
    Mutant(
        "the memory that a merge of puts in columns saves stays counted",
        "Applier.merge_segments",
        "store.memstore.merge_run(self._stores.change, self._memory.add)",
        "store.memstore.merge_run(self._stores.change, abs)",
        f"{REGION}::test_small_segments_are_merged",
    ),
    Mutant(
        "lines of puts in columns keep the number with which they were prepared",
        "PreparedSegments.numbered",
        "(number, segment.renumbered(write_number, stamp if is_stamped else None))",
        "(number, segment)",
        f"{REGION}::test_the_later_of_two_puts_in_one_millisecond_wins",
    ),
    Mutant(
        "pieces of puts in columns leave rows out",
        "PutBatch.pieces",
        "for place in range(piece_count + 1)]",
        "for place in range(piece_count)]",
        f"{MESSAGES}::test_pieces_together_are_the_batch",
    ),
    Mutant(
        "the last piece of a batch may be small",
        "PutBatch.pieces",
        "[count * place // piece_count for place in range(piece_count + 1)]",
        "[*range(0, count, at_once), count]",
        f"{MESSAGES}::test_pieces_together_are_the_batch",
    ),
]

_LOG = [
    Mutant(
        "an older server takes a log with puts in columns",
        "version_for",
        "    return 3 if kind <= KIND_MAX_OF_FORMAT_3 else FORMAT_VERSION_MAX\n",
        "    return 3\n",
        f"{REGION}::test_an_older_server_refuses_a_log_with_such_puts_and_only_that",
    ),
    Mutant(
        "puts in columns are not replayed",
        "Replay.apply",
        "        elif kind in BULK_KINDS:\n",
        "        elif kind == KIND_ROW_PUTS:\n            pass\n        elif kind in BULK_KINDS:\n",
        f"{REGION}::test_rows_and_answers_survive_crashes[False]",
    ),
    Mutant(
        "puts in columns that store files have are replayed once more",
        "Replay.apply",
        "        if write_number <= self._last:\n",
        "        if write_number <= self._last and kind != KIND_ROW_PUTS:\n",
        f"{REGION}::test_rows_and_answers_survive_crashes[True]",
    ),
    Mutant(
        "a crash forgets the ids of puts in columns",
        "Replay._apply_bulk",
        "        if record.row_requests is not None:\n",
        "        if False:\n",
        f"{REGION}::test_rows_and_answers_survive_crashes[False]",
    ),
    Mutant(
        "the log has the ids of puts in columns under other rows",
        "RowRequests.decode",
        "            rows.append(data[position : position + length])\n",
        "            rows.insert(0, data[position : position + length])\n",
        f"{REGION}::test_rows_and_answers_survive_crashes[False]",
    ),
    Mutant(
        "a replay of puts in columns forgets the client's floor",
        "Replay._defer_row_answers",
        "RequestId(client, sequence, floor)",
        "RequestId(client, sequence, 0)",
        f"{REGION}::test_replay_forgets_the_answers_below_the_floor",
    ),
]

_FRONT_END = [
    Mutant(
        "rows in columns may have too few sequences",
        "put_batch",
        "    if sequences and len(sequences) != count:\n",
        "    if False:\n",
        f"{MESSAGES}::test_what_makes_no_sense_is_refused",
    ),
    Mutant(
        "nulls of puts in columns delete",
        "put_batch",
        "    if message.rows.nulls_delete:\n",
        "    if False:\n",
        f"{MESSAGES}::test_puts_do_not_delete",
    ),
    Mutant(
        "puts in columns may have any number of values",
        "put_batch",
        "    if count * columns > VALUES_MAX:\n",
        "    if False:\n",
        f"{MESSAGES}::test_values_are_bounded_nulls_included",
    ),
    Mutant(
        "the answer to puts in columns hides errors of single rows",
        "put_rows_answer",
        " and _are_all(first, outcomes):\n",
        ":\n",
        f"{MESSAGES}::test_other_rows_are_answered_one_by_one",
    ),
    Mutant(
        "puts in columns are made on the event loop",
        "Points.put_rows",
        "        self._hand_over(PutRowsRun(self, request, responder), is_large)\n",
        "        PutRowsRun(self, request, responder)._execute()\n",
        f"{MESSAGES}::test_the_loop_makes_no_puts_in_columns_however_few",
    ),
]

_CLIENT = [
    of_client(
        "puts of one row with different timestamps become one put",
        "PutRow.then",
        "self.timestamp != later.timestamp or ",
        "",
        f"{OF_CLIENT}::test_several_puts_of_a_row_give_what_their_mutations_give",
    ),
    of_client(
        "many puts of one row take time in proportion to their square",
        "PutRow.then",
        "        if len(self.columns) + len(later.columns) > _NAMES_CACHED_MAX:\n",
        "        if False:\n",
        f"{OF_CLIENT}::test_a_row_of_very_many_puts_is_a_mutation",
    ),
    of_client(
        "rows of the same puts don't share their columns",
        "_shape_of",
        "@lru_cache(maxsize=1024)\n",
        "",
        f"{OF_CLIENT}::test_rows_of_the_same_puts_share_their_columns",
    ),
    of_client(
        "the earlier of two values of a column wins in a batch",
        "PutRow.then",
        "        values.update(zip(later.columns, later.values, strict=True))\n",
        "        values = {**dict(zip(later.columns, later.values, strict=True)), **values}\n",
        f"{OF_CLIENT}::test_several_puts_of_a_row_give_what_their_mutations_give",
    ),
    of_client(
        "a value that is too large is not refused if a later put of the batch hides it",
        "PutRow.then",
        " or self.byte_count + later.byte_count > ROW_BYTES_MAX:",
        ":",
        f"{OF_CLIENT}::test_a_large_value_that_a_later_put_hides_is_sent_and_refused",
    ),
    of_client(
        "a later change of a row in a batch comes before the earlier one",
        "_joined",
        "    earlier.changes.extend((later.mutation() if isinstance(later, PutRow) else later).changes)\n"
        "    return earlier\n",
        "    later = later.mutation() if isinstance(later, PutRow) else later\n"
        "    later.changes.extend(earlier.changes)\n"
        "    return later\n",
        f"{BATCHES}::test_changes_of_one_row_are_sent_as_one_mutation_in_order",
    ),
    of_client(
        "two puts of one column are sent in columns",
        "_shape",
        "    if len(set(columns)) < len(columns):\n",
        "    if False:\n",
        f"{OF_CLIENT}::test_names_of_one_column_in_two_types_are_one_column",
    ),
    of_client(
        "rows in doubt are sent in columns, which have no age",
        "chosen_rows",
        " and not line.age_ms and",
        " and",
        f"{OF_CLIENT}::test_rows_in_doubt_are_repeated_as_mutations_with_their_age_and_number",
    ),
    of_client(
        "a server that does not know columns gets them",
        "BatchSend.request_for",
        " if takes_columns and not self._is_mutations_only else []",
        " if not self._is_mutations_only else []",
        f"{OF_CLIENT}::test_a_server_that_does_not_know_columns_gets_mutations",
    ),
    of_client(
        "a server that refuses columns gets them again",
        "BatchSend.absorb",
        "            self._is_mutations_only = True\n",
        "            pass\n",
        f"{OF_CLIENT}::test_a_server_that_refuses_columns_as_a_whole_gets_mutations",
    ),
    of_client(
        "rows in columns get each other's numbers",
        "put_rows_message",
        "[row.sequence for row in rows]",
        "[row.sequence for row in reversed(rows)]",
        f"{OF_CLIENT}::test_rows_in_columns_say_what_the_mutations_say",
    ),
    of_client(
        "rows in columns lose their timestamps",
        "_as_columns",
        "[row.timestamp for row in rows]",
        "[None for row in rows]",
        f"{OF_CLIENT}::test_rows_in_columns_say_what_the_mutations_say",
    ),
    of_client(
        "an absent value in columns is an empty one",
        "_as_columns",
        "[of_row.get(column) for of_row in by_column]",
        '[of_row.get(column, b"") for of_row in by_column]',
        f"{OF_CLIENT}::test_rows_in_columns_say_what_the_mutations_say",
    ),
]

COLUMN_PUTS = [*_REGION, *_LOG, *_FRONT_END, *_CLIENT]
