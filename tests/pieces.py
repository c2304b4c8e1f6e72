"""The suite in pieces, a process each, a few at once: `python -m tests.pieces [pytest's options]`.

Much of the suite waits: for a disk, for a server to start, for a pause between retries. So more pieces run at once than
there are processors, and the next one begins when one ends. The output of a piece is printed when it ends, or when the
whole run is ended by a signal. A piece that hangs is ended, and prints where its threads are.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.seeds import RUN_SEED


@dataclass(frozen=True, slots=True)
class Piece:
    """What one process runs: the tests of folders, or a share of their files.

    share: (number, count): of each `count` files the one with this number, from 0 on, so that a folder which takes
    longer than all others is several pieces.
    """

    folders: Sequence[str]
    share: tuple[int, int] = (0, 1)

    @property
    def label(self) -> str:
        """Names it in the output."""
        number, count = self.share
        return " ".join(self.folders) + (f" {number + 1}/{count}" if count > 1 else "")

    def arguments(self) -> Sequence[str]:
        """Returns the folders or files for pytest."""
        number, count = self.share
        if count == 1:
            return self.folders
        files = sorted(str(path) for folder in self.folders for path in Path(folder).rglob("test_*.py"))[number::count]
        assert files, f"{self.label}: without files pytest would run the whole suite"
        return files


# Those that take longest come first, so that the last ones end at about the same time.
# The two that start Spark don't begin together.
PIECES: Sequence[Piece] = (
    Piece(["tests/spark"]),
    *(Piece(["tests/unit/host"], share=(number, 2)) for number in range(2)),
    Piece(["tests/crash", "tests/consistency", "tests/soak"]),
    *(Piece(["tests/end_to_end"], share=(number, 3)) for number in range(3)),
    *(Piece(["tests/property"], share=(number, 2)) for number in range(2)),
    Piece(["tests/spark_programs"]),
    Piece(["tests/unit/region"]),
    Piece(["tests/unit/client", "tests/unit/cli"]),
    Piece(["tests/unit/storefile", "tests/unit/wal"]),
    Piece(["tests/mutants"]),
)
# Their temporary folders are in memory, if the system has room there. They crash, cut and fail the disk by themselves,
# so all that a real one adds are waits for its syncs. Tests of reads need a disk: Linux reads files in memory never
# "only if that does not wait" (RWF_NOWAIT).
IN_MEMORY = ("tests/unit/host",)
_MEMORY = Path("/dev/shm")
_MEMORY_FREE_MIN = 4 << 30
# A piece takes two thirds of this on a slow machine.
LIMIT_S = 1800.0
_ABORT_S = 30.0
# All pieces together write less; on a full disk they would fail with hundreds of errors that are none of theirs.
DISK_FREE_MIN = 4 << 30
# `make check` runs these.
ELSEWHERE = ("tests/tidy",)
AT_ONCE = (os.cpu_count() or 1) + 4
# The rest of them is for `make mutants`.
BROKEN_BUILDS = 30


@dataclass(frozen=True, slots=True)
class _Running:
    """A process that runs a piece, and the file with its output."""

    piece: Piece
    process: subprocess.Popen[bytes]
    output: Path
    started_at: float

    def show(self) -> None:
        """Prints its output, and what it ran."""
        sys.stdout.buffer.write(self.output.read_bytes())
        ended = "was ended" if self.process.returncode is None else f"ended with {self.process.returncode}"
        print(f"{self.piece.label}: {ended} after {time.monotonic() - self.started_at:.0f} s", flush=True)


class _Run:
    """Starts the processes of one run, and ends those that are left. Thread-safe."""

    def __init__(self, options: Sequence[str], folder: Path, in_memory: Path | None) -> None:
        """folder: for outputs and caches. in_memory: for the temporary folders of pieces that need no disk."""
        self._options = options
        self._folder = folder
        self._in_memory = in_memory
        self._environment = os.environ | {
            "ROWLOCK_SEED": str(RUN_SEED),
            "ROWLOCK_BROKEN_BUILDS": str(BROKEN_BUILDS),
        }
        # Else each server that a test starts compiles all of its modules, and starts in 1.4 s instead of 0.5 s.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._lock = threading.Lock()
        # Guarded by self._lock:
        self._running: list[_Running] = []
        self._is_over = False

    def run(self, piece: Piece) -> _Running | None:
        """Runs pytest for a piece, and returns when it has ended; None: the run is over. Blocks."""
        with self._lock:
            if self._is_over:
                return None
            number = len(self._running)
            path = self._folder / str(number)
            # Each process has a cache of its own, or they would overwrite each other's.
            arguments = [*self._options, *piece.arguments(), "-o", f"cache_dir={self._folder}/cache-{number}"]
            if self._in_memory is not None and piece.folders[0] in IN_MEMORY:
                arguments.append(f"--basetemp={self._in_memory}/{number}")
            command = [sys.executable, "-m", "pytest", *arguments]
            with path.open("wb") as output:
                process = subprocess.Popen(command, env=self._environment, stdout=output, stderr=output)
            running = _Running(piece, process, path, time.monotonic())
            self._running.append(running)
        # At SIGABRT pytest prints the stacks of all threads. Its own limit for a test is off once that fails.
        for limit_s, then in ((LIMIT_S, signal.SIGABRT), (_ABORT_S, signal.SIGKILL)):
            try:
                process.wait(limit_s)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(then)
        process.wait()
        return running

    def end(self) -> None:
        """Starts no more. Kills the processes that still run, and prints their output."""
        with self._lock:
            self._is_over = True
        for each in self._running:
            if each.process.poll() is None:
                each.show()
                each.process.kill()


def rest_of(pieces: Sequence[Piece]) -> Piece:
    """Returns the piece of all tests that are in none of the pieces, and not run elsewhere."""
    folders = dict.fromkeys(folder for piece in pieces for folder in piece.folders)
    return Piece([f"--ignore={folder}" for folder in (*folders, *ELSEWHERE)])


def _has_room(memory: Path) -> bool:
    try:
        return os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= _MEMORY_FREE_MIN
    except OSError:
        return False


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def main(options: Sequence[str], pieces: Sequence[Piece] = PIECES) -> int:
    """Runs pytest for each piece, and for the rest. Returns 0 if all succeeded."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < DISK_FREE_MIN:
        print(
            f"the tests need {DISK_FREE_MIN >> 30} GiB of free disk, and {tempfile.gettempdir()} has {free >> 20} MiB; "
            "free some, or set TMPDIR to another folder",
            file=sys.stderr,
        )
        return 1
    signal.signal(signal.SIGTERM, _end)
    codes: list[int] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowlock-tests-")))
        in_memory = None
        if _has_room(_MEMORY):
            in_memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rowlock-tests-", dir=_MEMORY)))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        run = _Run(options, folder, in_memory)
        try:
            for future in as_completed([pool.submit(run.run, piece) for piece in (*pieces, rest_of(pieces))]):
                ended = future.result()
                assert ended is not None
                ended.show()
                codes.append(ended.process.returncode)
        finally:
            run.end()
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
