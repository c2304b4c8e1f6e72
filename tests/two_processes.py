"""The suite in two processes: `python -m tests.two_processes [pytest's options]`.

Much of the suite waits: for a disk, for a server to start, for a pause between retries. The second process's output
is printed when both have ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.seeds import RUN_SEED

# The first process's share; the second has all other tests, which take about as long.
FIRST_SHARE = ("tests/consistency", "tests/crash", "tests/mutants", "tests/property", "tests/spark")


def main(options: list[str]) -> int:
    """Runs pytest for each share. Returns 0 if both succeeded."""
    shares = [FIRST_SHARE, [f"--ignore={folder}" for folder in FIRST_SHARE]]
    environment = {**os.environ, "ROWLOCK_SEED": str(RUN_SEED)}
    # Else each server that a test starts compiles all of its modules, and starts in 1.4 s instead of 0.5 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="rowlock-tests-") as folder, tempfile.TemporaryFile() as second_output:
        running = []
        for number, share in enumerate(shares):
            # Each process has a cache of its own, or they would overwrite each other's.
            cache = ["-o", f"cache_dir={folder}/cache-{number}"]
            command = [sys.executable, "-m", "pytest", *options, *share, *cache]
            output = second_output if number else None
            running.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        codes = [process.wait() for process in running]
        second_output.seek(0)
        sys.stdout.buffer.write(second_output.read())
        sys.stdout.flush()
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
