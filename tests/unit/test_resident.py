"""Much uncounted memory is released, and a release without effect is not repeated."""

from __future__ import annotations

import subprocess
import sys

import pytest
from rowlock_regionserver.config import MIB, Config
from rowlock_regionserver.ledger import Ledger
from rowlock_regionserver.resident import Resident, anonymous_bytes


class Process:
    """A process whose allocators keep some of what was freed."""

    def __init__(self) -> None:
        self.held = 40 * MIB
        self.ledger = Ledger(Config(), self.held)
        self.kept = 0
        self.stuck = 0
        self.given_back = 0
        self.resident = Resident(self.ledger, lambda: self.held + self.kept + self.ledger.bytes_held, self._give_back)

    def _give_back(self) -> None:
        self.given_back += 1
        self.kept = min(self.kept, self.stuck)

    def look(self) -> int:
        self.resident.look()
        return self.given_back


@pytest.fixture
def process() -> Process:
    return Process()


def test_memory_that_is_counted_or_was_there_at_the_start_causes_no_release(process: Process) -> None:
    process.ledger.memstores.add(500 * MIB)
    process.kept = 60 * MIB
    assert process.look() == 0


def test_much_uncounted_memory_causes_a_release_each_time(process: Process) -> None:
    process.kept = 70 * MIB
    assert process.look() == 1
    assert process.look() == 1
    process.kept = 70 * MIB
    assert process.look() == 2


def test_memory_that_can_not_be_released_causes_no_further_releases(process: Process) -> None:
    process.kept = process.stuck = 200 * MIB
    assert [process.look() for _ in range(3)] == [1, 1, 1]
    process.kept = 270 * MIB
    assert process.look() == 2


@pytest.mark.skipif(not anonymous_bytes(), reason="only Linux reports it")
def test_the_allocators_return_freed_memory() -> None:
    program = """
from rowlock_regionserver import process
from rowlock_regionserver.resident import anonymous_bytes
process.prepare()
process.limit_arrow()
process.set_allocators(2 << 30)
import pyarrow as pa
before = anonymous_bytes()
held = [bytes(1000) for _ in range(100_000)]
tables = [pa.allocate_buffer(50_000) for _ in range(2000)]
kept = held[::1000]
for table in tables:
    memoryview(table).cast("B")[:] = bytes(50_000)
print(anonymous_bytes() - before >> 20, flush=True)
del held, tables, table
while anonymous_bytes() - before > 20 << 20:  # Arrow's allocator takes a second.
    process.give_back()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert int(ran.stdout) > 150
