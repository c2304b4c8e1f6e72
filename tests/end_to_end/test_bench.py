"""The workloads of the bench run against a real server; `make bench` measures the speed."""

from __future__ import annotations

import subprocess
import sys

# One of each module in bench/workloads.
_FIGURES = [
    "get-sequential",
    "put-concurrent",
    "put-arrow",
    "scan-to-arrow",
    "slow-sync-increments",
    "get-from-files",
    "get-while-flushing",
    "resident",
    "recover-puts",
    "typed-put-arrow",
    "typed-scan-to-arrow",
    "typed-get-warm",
    "typed-get-column-p99",
    "edges-unread-scans",
    "edges-increments",
]
_SECONDS_MAX = 1200


def test_a_smoke_run_measures_the_requested_workload() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *_FIGURES], capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "failed" not in ran.stdout
    assert set(_FIGURES) <= {line.split(":")[0] for line in ran.stdout.splitlines()}
