"""The suite in four processes: `python -m tests.four_processes [pytest's options]`.

Much of the suite waits: for a disk, for a server to start, for a pause between retries. The output of all processes
but the first is printed when all have ended.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.seeds import RUN_SEED

# These shares and all other tests take about as long.
SHARES = (
    ("tests/property", "tests/spark"),
    ("tests/mutants",),
    ("tests/consistency", "tests/crash", "tests/end_to_end", "tests/soak"),
)


def main(options: list[str]) -> int:
    """Runs pytest for each share. Returns 0 if all succeeded."""
    shares = [*SHARES, [f"--ignore={folder}" for share in SHARES for folder in share]]
    environment = {**os.environ, "ROWLOCK_SEED": str(RUN_SEED)}
    # Else each server that a test starts compiles all of its modules, and starts in 1.4 s instead of 0.5 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="rowlock-tests-") as name, contextlib.ExitStack() as files:
        folder = Path(name)
        outputs = [None, *(files.enter_context((folder / str(n)).open("w+b")) for n in range(1, len(shares)))]
        running = []
        for number, (share, output) in enumerate(zip(shares, outputs, strict=True)):
            # Each process has a cache of its own, or they would overwrite each other's.
            cache = ["-o", f"cache_dir={folder}/cache-{number}"]
            command = [sys.executable, "-m", "pytest", *options, *share, *cache]
            running.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        codes = [process.wait() for process in running]
        for output in filter(None, outputs):
            output.seek(0)
            sys.stdout.buffer.write(output.read())
        sys.stdout.flush()
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
