"""The small disk that is filled: one that is never full is found out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A process of its own: the children are forked from one that has a single thread.
PROGRAM = """
import sys
from pathlib import Path
from tests.crash.children import ChildFailedError
from tests.crash.folders import folder
from tests.crash.small_disk import fill

with folder() as root:
    try:
        fill(root / "small", 300_000, lambda root, byte_count: True)
    except ChildFailedError as error:
        print(error)
"""


def test_filling_a_disk_that_is_never_full_ends() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert "a disk of 300000 bytes took more, and was never full" in ran.stdout, ran.stderr
