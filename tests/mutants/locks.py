"""Broken builds of locks: row locks, the gate, permits for background work, and table locks of clients."""

from __future__ import annotations

from .broken_build import CLIENT, Mutant

CLOSES = "unit/region/test_alter_and_close.py"
LOCKS = "unit/commit/test_locks.py"
QUEUE = "unit/commit/test_wait_queue.py"

LOCK_MUTANTS = [
    Mutant(
        "row locks are always free",
        "RowLocks._acquire_one",
        "            if row not in self._queues:\n",
        "            if True:\n",
        f"{LOCKS}::test_a_wait_that_times_out_takes_no_lock",
    ),
    Mutant(
        "a writer that gives up keeps the locks it had",
        "RowLocks.acquire",
        "            self.release(rows[:taken])\n",
        "            pass\n",
        f"{LOCKS}::test_a_wait_that_times_out_takes_no_lock",
    ),
    Mutant(
        "a row lock passes to the latest waiter",
        "WaitQueue.hand_over",
        "self._waiters.popleft()",
        "self._waiters.pop()",
        f"{LOCKS}::test_locks_pass_on_in_the_order_of_arrival",
    ),
    Mutant(
        "a thread that times out stays in its queue",
        "WaitQueue.wait",
        "                self._waiters.remove(waiter)\n",
        "                pass\n",
        f"{QUEUE}::test_a_thread_that_times_out_is_passed_over",
    ),
    Mutant(
        "a released permit is free for newcomers although a thread waits",
        "FairSemaphore.release",
        "            if not self._queue.hand_over():\n                self._free += 1\n",
        "            self._queue.hand_over()\n            self._free += 1\n",
        "unit/region/test_fair_semaphore.py::test_a_released_permit_passes_to_the_thread_that_waits_and_not_to_a_newcomer",
    ),
    Mutant(
        "a thread that times out waiting for the gate exclusively leaves the others waiting",
        "Gate.enter_exclusive",
        "                    self._begin_shared_phase()",
        "                    pass",
        f"{CLOSES}::test_a_thread_that_times_out_on_the_exclusive_gate_admits_the_waiting_threads",
    ),
    Mutant(
        "a new thread overtakes one that waits for the gate exclusively",
        "Gate.enter",
        "            if not self._is_barred:\n",
        "            if not self._is_exclusive:\n",
        f"{LOCKS}::test_an_exclusive_waiter_waits_for_shared_holders_and_bars_new_ones",
    ),
    Mutant(
        "exclusive holders of the gate follow each other without a shared phase",
        "Gate.leave_exclusive",
        "            elif self._shared_queue:\n",
        "            elif self._shared_queue and not self._exclusive_queue:\n",
        f"{LOCKS}::test_a_shared_phase_lies_between_two_exclusive_ones",
    ),
    Mutant(
        "a refused request of a client leaves the queue of the lock during its pauses",
        "LockAttempts.wait_ms",
        "self._policy.whole_s\n",
        "self._policy.wait_s\n",
        "unit/locks/test_lock_waits.py"
        "::test_an_exclusive_request_waits_no_longer_than_the_longest_hold_although_each_try_is_shorter",
        CLIENT,
    ),
    Mutant(
        "a writer that was admitted before its region closed writes after it",
        "Gate.close",
        "            self._is_closed = True\n",
        "            pass\n",
        f"{CLOSES}::test_a_write_that_comes_to_the_gate_after_the_region_was_dropped_is_refused",
    ),
]
