"""Memory that nobody counts is given back once there is much of it, and not asked for again in vain."""

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


def test_what_is_counted_or_was_there_from_the_beginning_is_left_alone(process: Process) -> None:
    process.ledger.memstores.add(500 * MIB)
    process.kept = 60 * MIB
    assert process.look() == 0


def test_what_nobody_counts_is_given_back_whenever_it_has_become_much(process: Process) -> None:
    process.kept = 70 * MIB
    assert process.look() == 1
    assert process.look() == 1
    process.kept = 70 * MIB
    assert process.look() == 2


def test_what_can_not_be_given_back_is_not_asked_for_again_and_again(process: Process) -> None:
    process.kept = process.stuck = 200 * MIB
    assert [process.look() for _ in range(3)] == [1, 1, 1]
    process.kept = 270 * MIB
    assert process.look() == 2


@pytest.mark.skipif(not anonymous_bytes(), reason="only Linux tells")
def test_the_allocators_give_back_what_was_freed() -> None:
    program = """
from rowlock_regionserver import process
from rowlock_regionserver.resident import anonymous_bytes
process.prepare()
process.limit_arrow()
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
