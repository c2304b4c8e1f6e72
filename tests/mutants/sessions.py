"""Broken builds of sessions and of the locks of tables."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

SESSIONS = "unit/sessions/test_sessions.py"
TREE = "unit/locks/test_lock_tree.py"
TABLE_LOCKS = "unit/locks/test_table_locks.py"
BULK_COMMIT = "unit/host/test_bulk_commit.py"
CLIENT_STATE = "unit/host/test_client_state.py"
RANDOM = "property/test_locks.py::test_locks_of_64_sessions_that_die_are_those_of_the_model"

INTERRUPTIONS = "unit/client/blocking/test_interruptions.py"

SESSION_MUTANTS = [
    Mutant(
        "a release that was interrupted before its call can't be repeated",
        "Lock.release",
        "                self.session._end()  # private to the package\n"
        "            except SessionEndedError:\n"
        "                if self._release_count == 1:  # Else another call may have released it.\n"
        "                    raise\n            finally:\n                self._is_released = not self.session.is_open",
        "                self.session._end()  # private to the package\n"
        "            except SessionEndedError:\n                raise\n"
        "            finally:\n                self._is_released = True",
        f"{INTERRUPTIONS}::test_a_release_that_is_interrupted_before_its_call_can_be_repeated",
        CLIENT,
    ),
    Mutant(
        "closing a client leaves its locks",
        "Client.close",
        "            end_own_sessions(self._servers)\n        finally:\n            self._servers.close()",
        "            pass\n        finally:\n            self._servers.close()",
        f"{INTERRUPTIONS}::test_closing_a_client_ends_the_sessions_with_ids_of_its_own",
        CLIENT,
    ),
    Mutant(
        "a client that is closed ends sessions that others know by their ids",
        "open_session",
        "        answer = servers.call(methods.OPEN_SESSION, request, timeout_s)\n"
        "        return Session(servers, answer.session, timeout_s)\n",
        "        answer = servers.call(methods.OPEN_SESSION, request, timeout_s)\n"
        "        session = Session(servers, answer.session, timeout_s)\n"
        "        servers.sessions.add(session)\n        return session\n",
        f"{INTERRUPTIONS}::test_closing_a_client_ends_the_sessions_with_ids_of_its_own",
        CLIENT,
    ),
    Mutant(
        "a session that is being opened when its client is closed stays",
        "end_own_sessions",
        "                    servers.call(methods.END_SESSION, request, remaining_s)\n",
        "                    if request.session.number:\n"
        "                        servers.call(methods.END_SESSION, request, remaining_s)\n",
        f"{INTERRUPTIONS}::test_closing_a_client_ends_a_session_that_is_being_opened",
        CLIENT,
    ),
    Mutant(
        "of two calls that release a lock one says that it was lost",
        "Lock.release",
        "                self.session._end()  # private to the package\n"
        "            except SessionEndedError:\n                if self._release_count == 1:",
        "                self.session._end()  # private to the package\n"
        "            except SessionEndedError:\n                if True:",
        f"{INTERRUPTIONS}::test_two_calls_may_release_a_lock_at_once",
        CLIENT,
    ),
    Mutant(
        "an end that overtakes the opening of its session finds none",
        "Sessions.end",
        "            # A client that gave its opening up may end it before that has a number.\n"
        "            self._changed.wait_for(",
        "            bool(",
        f"{SESSIONS}::test_an_end_that_overtakes_the_opening_waits_for_it",
    ),
    Mutant(
        "a stream of batches that is interrupted at its opening keeps a thread",
        "BulkStream.__init__",
        "            self._messages.put(None)  # An",
        "            pass  # An",
        "unit/client/test_grpc_stream.py"
        "::test_an_interruption_when_a_stream_of_batches_has_just_opened_leaves_no_thread",
        CLIENT,
    ),
    Mutant(
        "a channel on which no call ends stays in use",
        "Connections._forget_channel",
        "self._channels.pop(address, None), ",
        "",
        "unit/client/test_calls.py::test_a_channel_on_which_no_call_ends_is_replaced",
        CLIENT,
    ),
    Mutant(
        "the lock of a dead session is not released",
        "SessionLock.release",
        "        self._locks.withdraw(self.request)\n",
        "",
        f"{CLIENT_STATE}::test_a_lock_is_released_with_its_session",
    ),
    Mutant(
        "the lock of a dead session is not released, at random",
        "SessionLock.release",
        "        self._locks.withdraw(self.request)\n",
        "",
        RANDOM,
    ),
    Mutant(
        "a session without heartbeats lives until the thread comes",
        "Sessions._find",
        "session.state is SessionState.OPEN and not self._is_over(session)",
        "session.state is SessionState.OPEN",
        f"{SESSIONS}::test_a_session_without_heartbeats_ends_and_frees_what_it_held",
    ),
    Mutant(
        "a release that fails ends the thread of sessions",
        "Sessions._end",
        "            except Exception:\n",
        "            except ZeroDivisionError:\n",
        f"{SESSIONS}::test_a_release_that_fails_ends_neither_the_others_nor_the_thread",
    ),
    Mutant(
        "a session ends under a call",
        "Sessions._may_expire",
        "session.state is SessionState.OPEN and not session.use_count",
        "session.state is SessionState.OPEN",
        f"{SESSIONS}::test_a_call_keeps_its_session_and_counts_as_a_heartbeat",
    ),
    Mutant(
        "a session ends under a commit",
        "Sessions._end",
        "            self._changed.wait_for(lambda: not session.uninterrupted_count)\n",
        "",
        f"{SESSIONS}::test_an_end_waits_for_a_commit_and_takes_no_more_calls",
    ),
    Mutant(
        "the number of an earlier opening is accepted",
        "Sessions._find",
        "ref.number in (0, session.number)",
        "True",
        f"{SESSIONS}::test_an_id_is_used_again_and_the_old_number_is_refused",
    ),
    Mutant(
        "another client commits a bulk write whose session it knows by id",
        "Sessions._find",
        "        if not (ref.number or to_end):\n",
        "        if False:\n",
        f"{BULK_COMMIT}::test_another_client_neither_stages_commits_nor_aborts_a_bulk_write",
    ),
    Mutant(
        "numbers begin again after a restart",
        "encode",
        "if state.session_numbers_until > 1 else {}",
        "if state.session_numbers_until < 1 else {}",
        f"{CLIENT_STATE}::test_numbers_go_on_after_a_restart",
    ),
    Mutant(
        "a shared request passes a waiting exclusive one",
        "LockTree._advance",
        "(node.queue and not is_holder) or not",
        "not",
        f"{TREE}::test_requests_are_served_in_order_and_nothing_passes_an_exclusive_one",
    ),
    Mutant(
        "a session waits for an earlier lock than it holds",
        "LockTree._must_not_wait",
        "any(other.wanted[-1][0] >= key for other in self._others_of_session(request))",
        "False",
        f"{TREE}::test_a_session_that_holds_a_later_lock_does_not_wait_for_an_earlier_one",
    ),
    Mutant(
        "the table of a region is not locked",
        "wanted_of",
        "        modes.setdefault(LockKey(key.table), Mode.SHARED)\n",
        "",
        f"{TREE}::test_the_table_of_a_region_is_locked_shared_first",
    ),
    Mutant(
        "locks are taken in the order in which they are named",
        "wanted_of",
        "tuple(sorted(modes.items()))",
        "tuple(modes.items())",
        f"{TREE}::test_locks_are_taken_in_one_order_whatever_the_request_names_first",
    ),
    Mutant(
        "a refused request stays in the queue",
        "TableLocks._refusal",
        "        granted = self._leave(request)\n",
        "        granted: list[Callable[[], None]] = []\n",
        f"{TABLE_LOCKS}::test_a_refusal_names_the_holders_and_leaves_nothing",
    ),
    Mutant(
        "a table in use is dropped",
        "RegionServer.drop_table",
        "        self.clients.check_unused(name, caller, force=force)\n",
        "",
        f"{CLIENT_STATE}::test_a_table_in_use_is_not_dropped_and_its_users_are_named",
    ),
    Mutant(
        "a compaction takes a lock of its table",
        "RegionServer._compact_region",
        "        with counted_memory(self.ledger, self._shared.config), self._failures.are_final():\n",
        "        table, caller = self.region(region_id).table.name, Caller('a compaction', wait_ms=0)\n"
        "        with self.clients.locked(Operation.SNAPSHOT, table, caller), self._failures.are_final():\n",
        f"{CLIENT_STATE}::test_bulk_batches_staging_and_compactions_take_no_lock",
    ),
    Mutant(
        "a client does not note that its session has ended",
        "OpenedSession.noting_its_end",
        "            self.note_ended(error)\n",
        "",
        "unit/client/test_session_requests.py::test_a_session_notes_its_end_by_the_error_that_says_so_and_by_no_other",
        CLIENT,
    ),
]
