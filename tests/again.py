"""The suite, and a second chance for the few tests that failed: `python -m tests.again [pytest's arguments]`.

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
_TESTS_FAILED = 1  # pytest's exit code for it


def main(arguments: Sequence[str]) -> int:
    """Runs pytest once or twice; its exit code."""
    with tempfile.TemporaryDirectory(prefix="rowlock-again-") as folder:
        code = _run([*arguments, "-o", f"cache_dir={folder}"])
        if code != _TESTS_FAILED:
            return abs(code)
        failed = _failed(Path(folder))
        if not failed or len(failed) > SECOND_CHANCES_MAX:
            _say(f"{len(failed)} tests failed; only 1 to {SECOND_CHANCES_MAX} are run a second time")
            return code
        _say(f"{len(failed)} failed, and are run a second time")
        code = _run([*arguments, "-o", f"cache_dir={folder}", "--last-failed", "--last-failed-no-failures=none"])
        failed_twice = failed if code not in (0, _TESTS_FAILED) else _failed(Path(folder))
        for test in failed:
            _say(f"failed twice: {test}" if test in failed_twice else f"flaky: {test} passed only the second time")
        return abs(code)


def _run(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def _failed(cache: Path) -> list[str]:
    """The tests that pytest keeps as failed, in its cache."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def _say(text: str) -> None:
    print(f"again: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
