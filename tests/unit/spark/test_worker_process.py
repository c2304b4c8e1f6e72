"""What a worker of PySpark's daemon keeps from its collections of all garbage, and from the system."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys

import pytest

# Runs as a program of this name, and prints how many objects later collections leave alone, after each call.
PROGRAM = """
import gc, sys
from importlib.machinery import ModuleSpec
from rowlock.spark.worker_process import exclude_modules
sys.modules["__main__"].__spec__ = ModuleSpec({name!r}, None)
exclude_modules()
kept = [object() for _ in range(3)], [[]]
first = gc.get_freeze_count()
exclude_modules()
second = gc.get_freeze_count()
import wave
exclude_modules()
print(first, second, gc.get_freeze_count())
"""


def frozen(name: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(name=name)], capture_output=True, text=True, timeout=60, check=True
    )
    return [int(count) for count in done.stdout.split()]


def test_a_worker_excludes_what_was_imported_and_does_it_again_only_for_new_modules() -> None:
    first, second, third = frozen("pyspark.daemon")
    assert first > 1000
    assert first == second < third


@pytest.mark.parametrize("name", ["__main__", "my_program"])
def test_other_programs_are_left_alone(name: str) -> None:
    assert frozen(name) == [0, 0, 0]


# Prints how many pages were cleared for the memory of ten batches, after a first one.
MEMORY_PROGRAM = """
import resource, sys
from importlib.machinery import ModuleSpec
from rowlock.spark.worker_process import keep_freed_memory
sys.modules["__main__"].__spec__ = ModuleSpec({name!r}, None)
keep_freed_memory()
def batch():
    kept = [b"x" * (3 << 20) for _ in range(6)]
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def cleared_pages(name: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM.format(name=name)], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_a_worker_keeps_the_memory_of_a_batch_for_the_next_one() -> None:
    pages_of_a_batch = (18 << 20) // resource.getpagesize()
    assert cleared_pages("pyspark.daemon") < pages_of_a_batch
    assert cleared_pages("my_program") > 3 * pages_of_a_batch
