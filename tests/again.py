"""The suite, and a second chance for the few tests that failed: `python -m tests.again [pytest's arguments]`.

With `--shared` in front two processes share the whole suite, since much of it waits: for a disk, a server's start, a
pause between two tries. What the second one prints comes when both have ended.

A machine that builds for many people stalls at times, and a test that fails there for that reason alone is a bug of the
test. It must not be hidden, and must not throw away the whole build either. So what failed is run once more, alone and
in a process of its own. What passes then is named as flaky, to be mended; what fails again fails the build. Anything
else than a few failed tests (a crash, an error of the collection, more than `SECOND_CHANCES_MAX`) fails it at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SECOND_CHANCES_MAX = 10
# The first process's share; the second has all the rest, which takes about as long.
FIRST_SHARE = ("tests/consistency", "tests/crash", "tests/mutants", "tests/spark")
_TESTS_FAILED = 1  # pytest's exit code for it


def main(arguments: list[str]) -> int:
    """Runs pytest for each share, and once more for what failed; the exit code."""
    shares = [arguments]
    if arguments[:1] == ["--shared"]:
        common = arguments[1:]
        shares = [[*common, *FIRST_SHARE], [*common, *[f"--ignore={folder}" for folder in FIRST_SHARE]]]
    with tempfile.TemporaryDirectory(prefix="rowlock-again-") as folder:
        caches = [Path(folder, f"share-{number}") for number in range(len(shares))]
        runs = [[*share, "-o", f"cache_dir={cache}"] for share, cache in zip(shares, caches, strict=True)]
        codes = _run(runs)
        if set(codes) - {0, _TESTS_FAILED}:
            return max(map(abs, codes))
        failed = [_failed(cache) for cache in caches]
        count = sum(map(len, failed))
        if not any(codes):
            return 0
        # A share that fails without a failed test has another fault, which no second run forgives.
        if count > SECOND_CHANCES_MAX or any(code and not tests for code, tests in zip(codes, failed, strict=True)):
            _say(f"{count} tests failed; only 1 to {SECOND_CHANCES_MAX} are run a second time")
            return _TESTS_FAILED
        _say(f"{count} failed, and are run a second time")
        code = 0
        for run, cache, failed_once in zip(runs, caches, failed, strict=True):
            if failed_once:
                code = max(code, _run_again(run, cache, failed_once))
        return code


def _run(runs: Sequence[Sequence[str]]) -> list[int]:
    """Runs pytest with each of these arguments, side by side; the exit codes."""
    command = [sys.executable, "-m", "pytest"]
    with tempfile.TemporaryFile() as kept:
        first, *others = [
            subprocess.Popen(
                [*command, *run], stdout=kept if number else None, stderr=subprocess.STDOUT if number else None
            )
            for number, run in enumerate(runs)
        ]
        codes = [first.wait(), *[other.wait() for other in others]]
        kept.seek(0)
        sys.stdout.buffer.write(kept.read())
        sys.stdout.flush()
    return codes


def _run_again(run: Sequence[str], cache: Path, failed_once: Sequence[str]) -> int:
    """Runs what failed of a share, alone; the exit code."""
    (code,) = _run([[*run, "--last-failed", "--last-failed-no-failures=none"]])
    failed_twice = failed_once if code not in (0, _TESTS_FAILED) else _failed(cache)
    for test in failed_once:
        _say(f"failed twice: {test}" if test in failed_twice else f"flaky: {test} passed only the second time")
    return abs(code)


def _failed(cache: Path) -> list[str]:
    """The tests that pytest keeps as failed, in its cache."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def _say(text: str) -> None:
    print(f"again: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
