"""The workloads of the bench run against a real server; `make bench` measures the speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.drawn_cases import drawn

# At least one of each module in bench/workloads.
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
    "edges-mixed-batches",
    "edges-increments",
    "get-framed",
    "scan-compacted",
    "latency-put-busy",
    "floods-scans",
]
_SECONDS_MAX = 1200


def test_a_smoke_run_measures_the_requested_workload() -> None:
    figures = drawn(_FIGURES, 2, "figures")
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", *figures], capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "failed" not in ran.stdout
    assert set(figures) <= {line.split(":")[0] for line in ran.stdout.splitlines()}


def test_a_small_run_of_growth_writes_curves_and_pictures(tmp_path: Path) -> None:
    words = ["--rows", "1000", "--clients", "1,2", "--seconds", "0.1", "--output", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "bench", "--growth", *words], capture_output=True, text=True, timeout=_SECONDS_MAX
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    written = json.loads((tmp_path / "growth.json").read_text())
    for name, sizes in (("rows", [1000]), ("clients", [1, 2])):
        curves = written[name]["curves"]
        assert {tuple(curve["sizes"]) for curve in curves} == {tuple(sizes)}
        assert all(value > 0 for curve in curves for value in curve["values"])
        assert len(written[name]["others"]) == len(sizes)
        assert (tmp_path / f"growth-{name}.md").read_text().count("\n| ") == len(curves) + 3
    assert all((tmp_path / f"growth-{name}.svg").is_file() for name in ("rows", "clients", "latencies"))
