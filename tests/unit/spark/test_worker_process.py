"""What a worker of PySpark's daemon keeps from its collections of all garbage."""

from __future__ import annotations

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
