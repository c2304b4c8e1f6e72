"""The suite in four processes: `python -m tests.four_processes [pytest's options]`.

Much of the suite waits: for a disk, for a server to start, for a pause between retries. The output of the first process
is printed as it comes, that of each other one when it ends, or when the whole run is ended by a signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from tests.seeds import RUN_SEED

# These shares and all other tests take about as long.
SHARES = (
    ("tests/property", "tests/spark"),
    ("tests/mutants",),
    ("tests/consistency", "tests/crash", "tests/end_to_end", "tests/soak"),
)


# The rest of them is for `make mutants`.
BROKEN_BUILDS = 200


@dataclass(frozen=True, slots=True)
class _Share:
    """A process that runs a share of the suite, and the file with its output; None: it prints by itself."""

    arguments: list[str]
    process: subprocess.Popen[bytes]
    output: BinaryIO | None
    started_at: float

    def show(self) -> None:
        """Prints its output, and what it ran."""
        if self.output is not None:
            self.output.seek(0)
            sys.stdout.buffer.write(self.output.read())
        ended = "was ended" if self.process.returncode is None else f"ended with {self.process.returncode}"
        print(f"{' '.join(self.arguments)}: {ended} after {time.monotonic() - self.started_at:.0f} s", flush=True)


@contextlib.contextmanager
def _running(options: list[str], folder: Path) -> Iterator[list[_Share]]:
    """Runs pytest for each share. Finally kills the processes that still run, and prints their output."""
    folders = [*SHARES, [f"--ignore={tests}" for share in SHARES for tests in share]]
    environment = {**os.environ, "ROWLOCK_SEED": str(RUN_SEED), "ROWLOCK_BROKEN_BUILDS": str(BROKEN_BUILDS)}
    # Else each server that a test starts compiles all of its modules, and starts in 1.4 s instead of 0.5 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with contextlib.ExitStack() as stack:
        running = []
        for number, share in enumerate(folders):
            output = stack.enter_context((folder / str(number)).open("w+b")) if number else None
            # Each process has a cache of its own, or they would overwrite each other's.
            arguments = [*options, *share, "-o", f"cache_dir={folder}/cache-{number}"]
            command = [sys.executable, "-m", "pytest", *arguments]
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            running.append(_Share(list(share), process, output, time.monotonic()))
        try:
            yield running
        finally:
            for each in running:
                if each.process.poll() is None:
                    each.show()
                    each.process.kill()


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def main(options: list[str]) -> int:
    """Runs pytest for each share. Returns 0 if all succeeded."""
    signal.signal(signal.SIGTERM, _end)
    with (
        tempfile.TemporaryDirectory(prefix="rowlock-tests-") as name,
        ThreadPoolExecutor() as pool,
        _running(options, Path(name)) as shares,
    ):
        waiting = {pool.submit(share.process.wait): share for share in shares}
        codes = []
        for ended in as_completed(waiting):
            codes.append(ended.result())
            waiting[ended].show()
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
