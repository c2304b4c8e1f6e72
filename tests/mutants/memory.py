"""Broken builds of the ledger, of what is counted in it, and of what is flushed when memory is scarce."""

from __future__ import annotations

from .broken_build import Mutant

FLUSHING = "unit/catalog/test_flushing.py"
LEDGER = "unit/test_ledger.py"
LIMIT = "unit/test_memory_limit.py"
PLAN = "unit/test_memory_plan.py"

MEMORY = [
    Mutant(
        "what is refused is counted",
        "ledger.py",
        "                return False\n            self._count(byte_count)\n",
        "                self._count(byte_count)\n                return False\n            self._count(byte_count)\n",
        f"{LEDGER}::test_what_does_not_fit_now_is_refused_with_a_delay_and_not_counted",
    ),
    Mutant(
        "all parts together have no bound",
        "ledger.py",
        " and ledger.bytes_held + byte_count <= ledger.bytes_max",
        "",
        f"{LEDGER}::test_all_parts_together_have_a_bound_too",
    ),
    Mutant(
        "what never fits is told to come again",
        "ledger.py",
        "        if byte_count > self.bytes_max:\n",
        "        if False:\n",
        f"{LEDGER}::test_what_can_never_fit_is_refused_for_good",
    ),
    Mutant(
        "nobody is woken when memory is given back",
        "ledger.py",
        "        for wake in woken:\n            wake()\n",
        "",
        f"{LEDGER}::test_who_waits_is_woken_once_when_something_is_given_back",
    ),
    Mutant(
        "only the innermost control group is looked at",
        "memory_limit.py",
        "    for folder in (inside, *inside.parents):\n",
        "    for folder in (inside,):\n",
        f"{LIMIT}::test_of_nested_groups_the_smallest_limit_counts",
    ),
    Mutant(
        "parts may be more than the memory",
        "memory_plan.py",
        "    if parts > config.memory:\n",
        "    if False:\n",
        f"{PLAN}::test_what_can_not_be_is_refused",
    ),
    Mutant(
        "under pressure one region is flushed at a time",
        "catalog/flushing.py",
        "                too_much -= byte_count\n",
        "                too_much = 0\n",
        f"{FLUSHING}::test_under_pressure_so_many_of_the_largest_are_due_as_bring_the_memstores_to_a_quarter",
    ),
    Mutant(
        "what is being flushed counts as held",
        "catalog/flushing.py",
        "            freed_soon = sum(self._running.values())\n",
        "            freed_soon = 0\n",
        f"{FLUSHING}::test_what_is_freed_soon_counts_as_freed",
    ),
    Mutant(
        "a region that the disk refused is tried again at once",
        "catalog/flushing.py",
        "if at > since)}",
        "if False)}",
        f"{FLUSHING}::test_a_region_that_the_disk_refused_holds_up_no_other_and_comes_again_later",
    ),
    Mutant(
        "no flush begins while there is no room for its work",
        "catalog/flushing.py",
        "                    self._work.add(work_bytes)  # One flush",
        "                    return  # One flush",
        f"{FLUSHING}::test_flushes_wait_for_room_for_what_they_work_on_but_one_always_runs",
    ),
]
